"""Arguments of tasks, in JSON and back: by msgspec, and by the standard library for plain types."""

import asyncio
import datetime
import enum
import inspect
import math
import sys
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pywheel import BadArguments, BadBody, JobQueue
from pywheel.tasks.arguments import Arguments, Field, Misfit, encoded_result
from pywheel.tasks.arguments_plain import PlainCodec
from pywheel.tasks.arguments_typed import TypedCodec
from pywheel.tasks.providers import Providers
from pywheel.tasks.signature import Signature
from pywheel.testing import run_due

CODECS = [PlainCodec, TypedCodec]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Line:
    sku: str
    count: int = 1


class Order(msgspec.Struct):
    id: int
    lines: list[Line]


class Address(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    street: str = pydantic.Field(alias="Street")
    since: datetime.date | None = None


def fields(**types):
    return {name: Field(annotation, required=True) for name, annotation in types.items()}


INTS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | INTS | FLOATS | TEXT, lambda v: st.lists(v) | st.dictionaries(TEXT, v), max_leaves=3
)
AWARE = st.datetimes(timezones=st.just(datetime.UTC))
LINES = st.builds(Line, TEXT, INTS)
PLAIN = {
    "a": (int, INTS),
    "b": (float, FLOATS),
    "c": (str, TEXT),
    "d": (bool, st.booleans()),
    "e": (None, st.none()),
    "f": (list[int], st.lists(INTS, max_size=3)),
    "g": (dict[str, float | None], st.dictionaries(TEXT, st.none() | FLOATS, max_size=3)),
    "h": (int | str | None, st.none() | INTS | TEXT),
    "i": (Literal["x", 7], st.sampled_from(["x", 7])),
    "j": (Any, JSON),
    "k": (list, st.lists(JSON, max_size=3)),
    "l": (dict, st.dictionaries(TEXT, JSON, max_size=3)),
}
TYPED = {
    **PLAIN,
    "m": (datetime.datetime, AWARE),
    "n": (datetime.date | None, st.none() | st.dates()),
    "o": (datetime.timedelta, st.timedeltas()),
    "p": (uuid.UUID, st.uuids()),
    "q": (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    "r": (Colour, st.sampled_from(Colour)),
    "s": (Line, LINES),
    "t": (Order, st.builds(Order, INTS, st.lists(LINES, max_size=2))),
    "u": (Address | None, st.none() | st.builds(Address, Street=TEXT, since=st.none() | st.dates())),
    "v": (list[Address], st.lists(st.builds(Address, Street=TEXT), max_size=2)),
    "w": (bytes, st.binary()),
    "x": (tuple[int, str], st.tuples(INTS, TEXT)),
    "y": (set[int], st.sets(INTS, max_size=3)),
    "z": (Annotated[int, msgspec.Meta(gt=0)], st.integers(1, 9)),
}


def values(kinds):
    return st.fixed_dictionaries({name: strategy for name, (_, strategy) in kinds.items()})


def codecs(kinds, *classes):
    return [codec("t", fields(**{name: kind for name, (kind, _) in kinds.items()})) for codec in classes]


WRITERS = codecs(PLAIN, *CODECS)
(TYPES,) = codecs(TYPED, TypedCodec)


@given(values(PLAIN))
def test_plain_arguments_come_back_whoever_wrote_them_and_whoever_reads_them(arguments):
    for writer in WRITERS:
        for reader in WRITERS:
            assert reader.decode(writer.encode(arguments)) == arguments


@given(values(TYPED))
def test_arguments_of_all_types_come_back(arguments):
    assert TYPES.decode(TYPES.encode(arguments)) == arguments


def function(a: int, b: int = 2, *, c: int, d: int = 4) -> None: ...


@given(st.lists(INTS, max_size=3), st.dictionaries(st.sampled_from("abcde"), INTS))
def test_arguments_are_bound_as_python_binds_them(args, kwargs):
    arguments = Signature(function, "t", Providers()).asked().arguments
    try:
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError:
        with pytest.raises(BadArguments):
            arguments.encoded(arguments.named(tuple(args), kwargs))
    else:
        assert arguments.decoded(arguments.encoded(arguments.named(tuple(args), kwargs))) == bound


@pytest.fixture(params=CODECS)
def codec(request):
    return request.param


@pytest.mark.parametrize(
    ("wanted", "value"),
    [
        *((int, value) for value in ("7", True, 7.5, None)),
        *((float, value) for value in ("7", True)),
        *((str, 7), (bool, 1), (list[int], ["7"]), (dict[str, int], {"a": "b"}), (int | None, "7")),
        (Literal["x", 7], "y"),
    ],
)
def test_a_value_of_another_type_is_refused(codec, wanted, value):
    reader = codec("t", fields(n=wanted, m=int))
    with pytest.raises(Misfit) as caught:
        reader.decode(reader.encode({"n": value, "m": 1}))
    assert caught.value.argument == "n"


@pytest.mark.parametrize(("body", "argument"), [(b"{}", "n"), (b'{"n":1,"x":2}', "x"), (b"[]", None), (b"7", None)])
def test_what_is_missing_or_too_much_is_named(codec, body, argument):
    with pytest.raises(Misfit) as caught:
        codec("t", fields(n=int)).decode(body)
    assert caught.value.argument == argument


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"n":NaN}', b'{"n":-Infinity}'])
def test_what_is_no_json_is_another_error(codec, body):
    with pytest.raises(BadBody):
        codec("t", fields(n=int)).decode(body)


@pytest.mark.parametrize("codec", CODECS)
def test_a_body_that_is_nested_too_deep_is_a_bad_body(codec, monkeypatch):
    monkeypatch.setattr("pywheel.tasks.arguments._there", lambda: codec is TypedCodec)
    arguments = Arguments("t", fields(n=Any))
    with pytest.raises(BadBody, match="the body of t is nested too deep"):
        arguments.decoded(b'{"n":' + b"[" * 100_000 + b"]" * 100_000 + b"}")


@pytest.mark.parametrize("wanted", [Any, float | None, list[float | None]])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_that_json_has_not_is_no_none(codec, wanted, value):
    writer = codec("t", fields(n=wanted, none=Any, word=str))
    for number in (value, [value]):
        with pytest.raises(ValueError, match="Out of range float values"):
            writer.encode({"n": number, "none": None, "word": "null"})
    assert writer.encode({"n": 1.5, "none": None, "word": "null"})


def test_an_int_is_taken_for_a_float(codec):
    assert isinstance(codec("t", fields(n=float)).decode(b'{"n":7}')["n"], float)


ENDLESS = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize("value", [object(), {1, 2}.__iter__(), "\ud800", lambda: 1, ENDLESS])
def test_a_value_that_cannot_be_written_is_named(value):
    arguments = Arguments("t", fields(m=Any, n=Any))
    with pytest.raises(BadArguments, match="argument 'n' of t must be Any"):
        arguments.encoded({"m": 1, "n": value})


def test_a_model_validates_itself():
    arguments = Arguments("t", fields(to=Address))
    body = arguments.encoded({"to": Address(Street="Main", since=datetime.date(2026, 1, 2))})
    assert body == b'{"to":{"Street":"Main","since":"2026-01-02"}}'
    with pytest.raises(BadArguments, match=r"argument 'to' of t must be Address: (?s:.)*Street"):
        arguments.decoded(b'{"to":{}}')


class Price(pydantic.BaseModel):
    value: float | None = pydantic.Field(None, alias="Value")
    raised: Literal["null"] = "null"
    parts: list["Price"] = []


class Loose(pydantic.BaseModel):
    value: Any = None


class Worded(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(ser_json_inf_nan="strings")

    value: float
    none: None = None


class Hidden(pydantic.BaseModel):
    value: Annotated[float, pydantic.PlainSerializer(lambda _: None, when_used="json")]


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_number_that_json_has_not_is_no_none_in_a_model(number):
    arguments = Arguments("t", fields(it=Price | None, also=list[Price]))
    good, bad = Price(Value=1.5, parts=[Price()]), Price(parts=[Price(Value=number)])
    assert arguments.decoded(arguments.encoded({"it": good, "also": []})) == {"it": good, "also": []}
    for said in ({"it": bad, "also": []}, {"it": None, "also": [bad]}):
        with pytest.raises(BadArguments, match="Out of range float values"):
            arguments.encoded(said)
    assert encoded_result([bad]) == [bad]  # json says that it cannot be written
    assert encoded_result(Loose(value={(1, 2): {number}})) == Loose(value={(1, 2): {number}})
    assert encoded_result(good) == good.model_dump_json(by_alias=True).encode()


def test_a_model_may_write_nan_as_text_and_other_numbers_as_null():
    assert encoded_result(Worded(value=math.nan)) == b'{"value":"NaN","none":null}'
    assert encoded_result(Hidden(value=1.5)) == b'{"value":null}'


def test_a_type_that_no_json_can_be_made_into_is_refused_at_once():
    with pytest.raises(BadArguments, match="t cannot have such parameters"):
        Arguments("t", fields(n=Address | int))
    with pytest.raises(BadArguments, match=r"argument 'n' of t is datetime, which needs msgspec: .*\[tasks\]"):
        PlainCodec("t", fields(n=datetime.datetime))


def test_what_a_function_returns_becomes_bytes_of_every_type():
    async def later():
        return Line("a")

    assert encoded_result(Line("a", 2)) == b'{"sku":"a","count":2}'
    assert asyncio.run(encoded_result(later())) == b'{"sku":"a","count":1}'
    assert encoded_result([Line("a"), None]) == b'[{"sku":"a","count":1},null]'
    assert encoded_result([math.inf, Line("a")]) == [math.inf, Line("a")]  # json says what is wrong with it
    strange = object()
    assert [encoded_result(value) for value in (None, b"x", strange)] == [None, b"x", strange]


def test_tasks_of_plain_types_do_without_msgspec(monkeypatch):
    monkeypatch.setitem(sys.modules, "msgspec", None)  # as if it were not installed
    seen = []
    with JobQueue("memory:") as queue:

        @queue.task()
        def close(order_id: int, note: str | None = None) -> None:
            seen.append((order_id, note))

        @queue.task()
        def at(when: datetime.datetime) -> None: ...

        close.put(7, note="late")
        assert run_due(queue) == 1
        with pytest.raises(BadArguments, match=r"needs msgspec: pip install 'pywheel-timer\[tasks\]'$"):
            at.put(datetime.datetime.now())
        with pytest.raises(BadArguments, match=r"'order_id' of .*close must be int: Expected `int`, got `str`"):
            close.put("7")
    assert seen == [(7, "late")]
