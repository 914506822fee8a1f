"""Commands made from actions, whose fields are arguments and options."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from inspect import Parameter as Argument
from inspect import Signature
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from cyclopts import App, Parameter
from msgspec import NODEFAULT, structs

from myna.accounts.activity import command_line
from myna.actions import Action, Field, R, fields_of
from myna.actions import perform as perform_action
from myna.channels.channels import Channels
from myna.channels.keys import ChannelKeys
from myna.cli.console import (
    JSON,
    Row,
    Whole,
    describe,
    read_settings,
    say_next,
    show,
    whole_numbers,
    with_database,
)
from myna.cli.wrong_usage import VALUES
from myna.errors import CommandError
from myna.http.client import HttpClient
from myna.store.database import Database

Shown = Callable[[Any, Any], Row]
"""What is printed of an action and its result."""
_YesOrNo = Literal["yes", "no"]


async def perform(
    db: Database, action: Action[R], *, channels: Channels | None = None, keys: ChannelKeys | None = None
) -> R:
    """Makes a change as the user of this command line. Raises CommandError."""
    by, settings = command_line(), read_settings()
    return await perform_action(db, action, by=by, settings=settings, channels=channels, keys=keys)


@asynccontextmanager
async def http_client() -> AsyncIterator[HttpClient]:
    """Sends the requests of a command, one at a time."""
    client = HttpClient(connections_max=1)
    try:
        yield client
    finally:
        await client.close()


def register(
    app: App,
    kind: type[Action[Any]],
    shown: Callable[[Any, Any], Any] = lambda _, result: result,
    *,
    run: Callable[..., Any] = perform,
    printed: Callable[[Any, bool], None] = show,
    then: Callable[[Any, Any], str] | None = None,
    unseen: Callable[[Any, Any], Action[Any] | None] = lambda action, result: None,
    lost: str = "",
) -> None:
    """Adds the command of an action to its noun's. `run` makes the change in the database, `printed` prints
    what is `shown` of the action and its result, as JSON or not, and `then` says the next step. `unseen` is
    the change that makes the secrets of a result invalid if they can't be printed, and `lost` says what that
    does not undo."""
    hints = get_type_hints(kind)
    types = {
        name: _type_of(hints[name]) for name, about in fields_of(kind).items() if not about.secret
    }  # a secret would stay in the shell's history
    arguments = Signature([*(_argument(kind, name, type_) for name, type_ in types.items()), JSON])
    VALUES.update(
        {name.replace("_", "-"): about.value for name, about in fields_of(kind).items() if about.value}
    )

    def command(*args: Any, **options: Any) -> None:
        given = arguments.bind(*args, **options).arguments
        as_json = given.pop("json", False)
        action = kind(**{name: _value(types[name], value) for name, value in given.items()})
        result = with_database(lambda db: run(db, action), json=as_json)
        output = shown(action, result)
        try:
            printed(output, as_json)
            sys.stdout.flush()
        except (BrokenPipeError, CommandError) as error:
            if not (undo := unseen(action, result)):
                raise
            with_database(lambda db: perform(db, undo), json=True)
            reason = "The output was closed." if isinstance(error, BrokenPipeError) else error
            raise CommandError(
                f"{reason} The output is incomplete, so the secrets in it are not valid any more.{lost}"
            ) from None
        if then and not as_json:
            say_next(then(action, output))

    describe(command, arguments, kind.__doc__)
    app.command(command, name=kind.command.split()[-1])


def named(**state: object) -> Shown:
    """Prints the name of what was changed, and its new state."""
    return lambda action, _: {"name": action.name, **state}


def _argument(kind: type[Action[Any]], name: str, type_: Any) -> Argument:
    about = fields_of(kind)[name]
    default = next(one.default for one in structs.fields(kind) if one.name == name)
    if default is NODEFAULT:
        default = Argument.empty
    elif default is None or default == ():
        default, type_ = None, type_ | None
    how = Argument.POSITIONAL_ONLY if about.argument else Argument.KEYWORD_ONLY
    return Argument(name, how, default=default, annotation=Annotated[type_, _parameter(about, type_)])


def _parameter(about: Field, type_: Any) -> Parameter:
    name = f"{about.argument}…" if about.argument and get_origin(type_) is list else about.argument
    if type_ == list[Whole]:  # cyclopts ignores the converter of a list's items
        return Parameter(name=name or None, help=about.help, converter=whole_numbers)
    return Parameter(name=name or None, help=about.help, allow_leading_hyphen=about.hyphen)


def _type_of(hint: Any) -> Any:
    """The type as cyclopts reads it: a tuple is given often, a number is whole, a choice is yes or no."""
    if get_origin(hint) is Literal:
        return hint
    kinds = [one for one in get_args(hint) if one is not type(None)]
    if get_origin(hint) is tuple or (kinds and get_origin(kinds[0]) is tuple):
        item = get_args(kinds[0])[0] if get_args(kinds[0]) else kinds[0]
        return list[Whole] if item is int else list[str]
    kind = kinds[0] if kinds else hint
    if kind is bool and kinds:
        return _YesOrNo
    return Whole if kind is int else kind


def _value(type_: Any, value: Any) -> Any:
    if type_ is _YesOrNo and value is not None:
        return value == "yes"
    return tuple(value) if isinstance(value, list) else value
