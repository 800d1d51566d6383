"""LlamaIndex: kgwalk as a tool for an agent, and as a retriever of facts (`pip install 'kgwalk[llamaindex]'`).

    from kgwalk.serve.clients.llamaindex import KgwalkNodeRetriever, kgwalk_tool

    agent = FunctionAgent(tools=[kgwalk_tool(url="http://127.0.0.1:8000")], llm=llm)
    KgwalkNodeRetriever("my.kg").retrieve("who directed Big?")

Both take what `Answers` takes: a graph here, or a running server. A tool's `raw_output` is the whole reply.
"""

from __future__ import annotations

import asyncio
from typing import Any

from kgwalk.serve.clients.answers import ABOUT, NAME, Answers
from kgwalk.types import KgwalkError

try:
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
    from llama_index.core.tools import FunctionTool, ToolOutput
except ModuleNotFoundError as error:
    raise KgwalkError(
        f"LlamaIndex's package is not installed ({error.name}); pip install 'kgwalk[llamaindex]'"
    ) from error


def kgwalk_tool(*graph: Any, name: str = NAME, **options: Any) -> FunctionTool:
    """A tool that answers a question; what went wrong is told to the model, so that it can ask otherwise."""
    answers = Answers(*graph, **options)

    def ask(question: str) -> ToolOutput:
        try:
            text, reply = answers.text(question)
        except KgwalkError as error:
            return ToolOutput(
                content=str(error), tool_name=name, raw_input={"question": question}, raw_output=None, is_error=True
            )
        return ToolOutput(content=text, tool_name=name, raw_input={"question": question}, raw_output=reply)

    async def ask_async(question: str) -> ToolOutput:
        return await asyncio.to_thread(ask, question)

    # the callback gives the output as it is; else it would be written as text into another
    return FunctionTool.from_defaults(
        ask, name=name, description=ABOUT, async_fn=ask_async, callback=lambda output: output
    )


class KgwalkNodeRetriever(BaseRetriever):
    """The facts behind each answer as nodes: the text is the facts, `metadata` has answer and evidence, the score is
    the confidence.
    """

    def __init__(self, *graph: Any, **options: Any) -> None:
        super().__init__()
        self.answers = Answers(*graph, **options)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(node=TextNode(text=one.text, metadata=one.about), score=one.score)
            for one in self.answers.found(query_bundle.query_str)
        ]
