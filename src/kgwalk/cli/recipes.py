"""`kgwalk recipes`: the systems there are, and one of them as it would be run."""

from __future__ import annotations

import typer

from kgwalk.cli.options import JsonOption, ProfileOption, RecipeArgument, ValuesOption, chosen_recipe
from kgwalk.cli.output import out, print_json, print_table

app = typer.Typer(
    help="List the recipes and baselines, or show one as it would be run.",
    epilog="Examples: kgwalk recipes · kgwalk recipes show kg-r1 · kgwalk recipes show kg-r1 --profile 135m",
)


@app.callback(invoke_without_command=True)
def recipes(
    context: typer.Context,
    json: JsonOption = False,
) -> None:
    if context.invoked_subcommand is not None:
        return
    from rich.table import Table

    from kgwalk.config.recipe import load_recipe, names, profiles

    found = [load_recipe(name) for name in names()]
    # the first line is a command to try
    about = {recipe.name: " ".join(recipe.about.splitlines()[1:]) for recipe in found}
    trained = {recipe.name: "grpo" in recipe.sections for recipe in found}
    if json:
        rows = [{"name": name, "about": text, "trains": trained[name]} for name, text in about.items()]
        print_json({"recipes": rows, "profiles": profiles()})
        return
    table = Table()
    for column in ("recipe", "trains", "what it is"):
        table.add_column(column)
    for name, text in about.items():
        table.add_row(name, "yes" if trained[name] else "", text)
    print_table(table)
    out.print(f"profiles: {', '.join(profiles())}")


@app.command(epilog="Examples: kgwalk recipes show kgwalk · kgwalk recipes show eog --set grpo.lr=1e-6")
def show(
    name: RecipeArgument,
    profile: ProfileOption = None,
    values: ValuesOption = None,
    json: JsonOption = False,
) -> None:
    """Print a recipe as it would be run, as TOML: save it, change it, run it by its path."""
    recipe = chosen_recipe(name, profile, values)
    if json:
        print_json({"name": recipe.name, "about": recipe.about, "sections": recipe.resolved()})
    else:
        out.print_lines(recipe.toml().rstrip())
