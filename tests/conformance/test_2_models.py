"""GET /models lists exactly two models."""

from tests.conformance.caller import Caller, assert_shape

MODELS = {"object": str, "data": [{"id": str, "object": str, "created": int, "owned_by": str}]}


def test_exactly_two_models_are_listed(caller: Caller) -> None:
    answer = caller.get("/models")
    assert answer.status == 200
    assert_shape(answer.json, MODELS)
    assert answer.json["object"] == "list"
    models = answer.json["data"]
    assert sorted(model["id"] for model in models) == ["svc-agent", "svc-chat"]
    assert {model["object"] for model in models} == {"model"}
    assert all(model["created"] > 0 and model["owned_by"] for model in models)


def test_the_list_of_models_is_stable(caller: Caller) -> None:
    assert caller.get("/models").json == caller.get("/models").json


def test_the_chat_scope_is_sufficient(scoped: dict[tuple[str, ...], Caller]) -> None:
    assert scoped["chat",].get("/models").status == 200
