"""LangChain: kgwalk as a tool for an agent, and as a retriever of facts (`pip install 'kgwalk[langchain]'`).

    from kgwalk.serve.clients.langchain import KgwalkRetriever, kgwalk_tool

    agent = create_agent(model, [kgwalk_tool(url="http://127.0.0.1:8000")])
    KgwalkRetriever("my.kg").invoke("who directed Big?")

Both take what `Answers` takes: a graph here, or a running server. The tool's artifact is the whole reply.
"""

from __future__ import annotations

import asyncio
from typing import Any

from kgwalk.serve.clients.answers import ABOUT, NAME, Answers
from kgwalk.types import KgwalkError

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.tools import StructuredTool, ToolException
    from pydantic import BaseModel, ConfigDict, Field
except ModuleNotFoundError as error:
    raise KgwalkError(
        f"LangChain's package is not installed ({error.name}); pip install 'kgwalk[langchain]'"
    ) from error


class AskArguments(BaseModel):
    """What a model calls the tool with."""

    question: str = Field(description="one question in plain words that names something of the graph")


def kgwalk_tool(*graph: Any, name: str = NAME, **options: Any) -> StructuredTool:
    """A tool that answers a question; what went wrong is told to the model, so that it can ask otherwise."""
    answers = Answers(*graph, **options)

    def ask(question: str) -> tuple[str, dict[str, Any]]:
        try:
            return answers.text(question)
        except KgwalkError as error:
            raise ToolException(str(error)) from error

    async def ask_async(question: str) -> tuple[str, dict[str, Any]]:
        return await asyncio.to_thread(ask, question)

    return StructuredTool.from_function(
        ask,
        ask_async,
        name=name,
        description=ABOUT,
        args_schema=AskArguments,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


class KgwalkRetriever(BaseRetriever):
    """The facts behind each answer as documents: `page_content` is the facts, `metadata` has answer and evidence."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    answers: Answers

    def __init__(self, *graph: Any, **options: Any) -> None:
        super().__init__(answers=Answers(*graph, **options))

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [Document(page_content=one.text, metadata=one.about) for one in self.answers.found(query)]
