"""kgwalk inside other people's frameworks: a tool and a retriever of LangChain and of LlamaIndex."""
