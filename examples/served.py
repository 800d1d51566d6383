"""Serve a graph on a free port and walk it over HTTP: who directed the films that Tom Hanks starred in?

Run: python examples/served.py films.kg
"""

import sys

from kgwalk import HttpGraph, load_graph
from kgwalk.serve.app import create_app
from kgwalk.serve.run import in_background
from kgwalk.serve.settings import ServeSettings


def main(path: str) -> None:
    app = create_app(ServeSettings(), graphs={"films": load_graph(path)})
    with in_background(app) as url, HttpGraph(url) as graph:
        print(f"serving {path} at {url}")
        films = graph.neighbors("Tom Hanks", "starred_actors", out=False)
        print(f"Tom Hanks starred in {films.total} films: {', '.join(films)}")
        directors = sorted({name for film in films for name in graph.neighbors(film, "directed_by")})
        print(f"their directors: {', '.join(directors)}")


if __name__ == "__main__":
    main(sys.argv[1])
