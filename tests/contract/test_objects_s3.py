"""Objects on S3: what requests they cost, what a lost answer means, and how a refusal is told (A-03, A-09)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from omnigraph.errors import Kind, Outcome, StorageError
from omnigraph.store.objects import Objects, open_objects
from tests.s3 import CountingProxy, S3Server

pytestmark = pytest.mark.s3

Act = Callable[[], object]


@pytest.fixture
def objects(s3_uri: str, s3_proxy: CountingProxy) -> Objects:
    return open_objects(s3_uri, storage_options=s3_proxy.storage_options)


class TestCost:
    def test_each_operation_costs_the_requests_it_says(self, objects: Objects, s3_proxy: CountingProxy) -> None:
        """A-09"""
        costs: list[tuple[Act, dict[str, int]]] = [
            (lambda: objects.put("a/x", b"1"), {"put": 1}),
            (lambda: objects.put("a/large", b"1" * 8_000_000), {"put": 1}),
            (lambda: objects.put_if_absent("a/x", b"2"), {"put": 1}),
            (lambda: objects.put_if_match("a/x", b"2", '"stale"'), {"put": 1}),
            (lambda: objects.get("a/x"), {"get": 1}),
            (lambda: objects.get_if_exists("a/x", limit_bytes=10), {"get": 1}),
            (lambda: objects.get_if_exists("absent"), {"get": 1}),
            (lambda: objects.get_versioned("a/x"), {"get": 1}),
            (lambda: objects.exists("a/x"), {"head": 1}),
            (lambda: objects.exists("a"), {"head": 1, "list": 1}),
            (lambda: objects.list("a"), {"list": 1}),
            (lambda: objects.rename("a/x", "a/y"), {"copy": 1, "delete": 1}),
            (lambda: objects.delete("a/y"), {"delete": 1}),
            (lambda: objects.delete_prefix("a"), {"list": 1, "delete": 1}),
        ]
        for number, (act, expected) in enumerate(costs):
            s3_proxy.reset()
            act()
            assert s3_proxy.counts == expected, number


class TestLostAnswers:
    @pytest.mark.parametrize("instead", [None, 500, 504])
    def test_a_claim_whose_answer_is_lost_is_unknown_and_sent_once(
        self, objects: Objects, s3_proxy: CountingProxy, instead: int | None
    ) -> None:
        """INV-8, A-02, A-03: sent again, it would meet its own object, and the winner would believe that it lost."""
        s3_proxy.lose_answers(instead)
        with pytest.raises(StorageError) as caught:
            objects.put_if_absent("claim", b"mine")
        assert (caught.value.kind, caught.value.outcome) == (Kind.STORAGE_UNAVAILABLE, Outcome.UNKNOWN)
        assert s3_proxy.counts == {"put": 1}
        found = objects.get_versioned("claim")
        assert found is not None
        s3_proxy.lose_answers(instead)
        with pytest.raises(StorageError) as caught:
            objects.put_if_match("claim", b"still mine", found[1])
        assert caught.value.outcome is Outcome.UNKNOWN
        assert objects.get("claim") == b"still mine"

    def test_a_refusal_that_says_so_is_tried_again(self, objects: Objects, s3_proxy: CountingProxy, s3_uri: str) -> None:
        """A-03: "too many requests" and "conflict" mean that nothing was done; here they come before the object does."""
        s3_proxy.refuse_writes(429, 409)
        assert objects.put_if_absent("claim", b"mine") is not None
        assert s3_proxy.counts["put"] == 3

    def test_a_plain_write_is_simply_repeated(self, objects: Objects, s3_proxy: CountingProxy) -> None:
        s3_proxy.lose_answers(500, None)
        objects.put("x", b"1")
        assert s3_proxy.counts == {"put": 3}
        assert objects.get("x") == b"1"


class TestRefusals:
    def test_a_user_who_may_only_read_is_told_so(self, s3_server: S3Server, s3_uri: str) -> None:
        writer = open_objects(s3_uri, storage_options=s3_server.storage_options)
        token = writer.put("x", b"1")
        objects = open_objects(s3_uri, storage_options=s3_server.reader_options)
        assert objects.get("x") == b"1"
        for act in (
            lambda: objects.put("x", b"2"),
            lambda: objects.put_if_absent("y", b"2"),
            lambda: objects.put_if_match("x", b"2", token),
            lambda: objects.rename("x", "y"),
        ):
            assert refusal(act) == (Kind.STORAGE_PERMISSION, Outcome.DID_NOT_HAPPEN)
        writer.put("f/y", b"1")
        assert refusal(lambda: objects.delete("x")) == (Kind.STORAGE_PERMISSION, Outcome.DID_NOT_HAPPEN)
        # One request deletes many; that one of them was refused says nothing of the others.
        assert refusal(lambda: objects.delete_prefix("f")) == (Kind.STORAGE_PERMISSION, Outcome.UNKNOWN)
        assert (writer.get("x"), writer.get("f/y")) == (b"1", b"1")

    def test_a_missing_bucket_is_a_wrong_setting_not_an_absent_object(self, s3_server: S3Server) -> None:
        """A-09"""
        objects = open_objects("s3://no-such-bucket/g", storage_options=s3_server.storage_options)
        for act in (*told_by_the_server(objects), lambda: objects.exists("x")):
            assert refusal(act) == (Kind.STORAGE_CONFIGURATION, Outcome.DID_NOT_HAPPEN)

    def test_wrong_credentials_are_a_wrong_setting(self, s3_server: S3Server, s3_uri: str) -> None:
        objects = open_objects(s3_uri, storage_options={**s3_server.storage_options, "aws_secret_access_key": "wrong"})
        for act in (*told_by_the_server(objects), lambda: objects.put_if_match("x", b"1", '"token"')):
            assert refusal(act) == (Kind.STORAGE_CONFIGURATION, Outcome.DID_NOT_HAPPEN)
        # The answer to HEAD has no body, so it cannot say why; it is an error all the same.
        assert refusal(lambda: objects.exists("x")) == (Kind.STORAGE_PERMISSION, Outcome.DID_NOT_HAPPEN)

    def test_a_plain_endpoint_needs_allow_http(self, s3_server: S3Server, s3_uri: str) -> None:
        objects = open_objects(s3_uri, storage_options={**s3_server.storage_options, "allow_http": "false"})
        with pytest.raises(StorageError, match="allow_http") as caught:
            objects.get("x")
        assert caught.value.kind is Kind.STORAGE_CONFIGURATION

    @pytest.mark.parametrize("wrong", [{"aws_nonsense": "1"}, {"allow_http": "perhaps"}, {"client_max_retries": "many"}])
    def test_options_that_mean_nothing_are_refused_at_once(self, s3_server: S3Server, s3_uri: str, wrong: dict[str, str]) -> None:
        with pytest.raises(StorageError) as caught:
            open_objects(s3_uri, storage_options={**s3_server.storage_options, **wrong})
        assert caught.value.kind is Kind.STORAGE_CONFIGURATION

    def test_options_of_lance_are_understood(self, s3_server: S3Server, s3_uri: str) -> None:
        lance = {"client_max_retries": "1", "client_retry_timeout": "5", "request_timeout": "20s", "download_retry_count": "2"}
        upper = {key.upper(): value for key, value in s3_server.storage_options.items()}
        objects = open_objects(s3_uri, storage_options={**upper, **lance})
        objects.put("x", b"1")
        assert objects.get("x") == b"1"

    def test_an_endpoint_that_is_not_there_is_unavailable(self, s3_server: S3Server, s3_uri: str) -> None:
        options = {**s3_server.storage_options, "aws_endpoint": "http://127.0.0.1:9", "client_max_retries": "1"}
        objects = open_objects(s3_uri, storage_options=options)
        assert refusal(lambda: objects.get("x")) == (Kind.STORAGE_UNAVAILABLE, Outcome.DID_NOT_HAPPEN)
        assert refusal(lambda: objects.list("")) == (Kind.STORAGE_UNAVAILABLE, Outcome.DID_NOT_HAPPEN)
        assert refusal(lambda: objects.put("x", b"")) == (Kind.STORAGE_UNAVAILABLE, Outcome.UNKNOWN)
        assert refusal(lambda: objects.put_if_absent("x", b"")) == (Kind.STORAGE_UNAVAILABLE, Outcome.UNKNOWN)


class TestPlace:
    def test_lance_and_objects_agree_on_where_a_uri_is(self, s3_server: S3Server, s3_uri: str) -> None:
        """A-12: the tables of a graph and its control objects must share a folder, however the URI is spelt."""
        import lance
        import pyarrow as pa

        uri = f"{s3_uri}/with space/and%20percent/ünï"
        lance.write_dataset(pa.table({"a": [1]}), f"{uri}/table", storage_options=s3_server.storage_options)
        objects = open_objects(f"{uri}/", storage_options=s3_server.storage_options)
        assert objects.uri == uri
        assert objects.list("table") == ["table/_transactions/", "table/_versions/", "table/data/"]

    def test_a_whole_bucket_is_a_place_too(self, s3_server: S3Server) -> None:
        objects = open_objects(f"s3://{s3_server.new_bucket()}", storage_options=s3_server.storage_options)
        objects.put("a/x", b"1")
        assert objects.list("") == ["a/"]


def told_by_the_server(objects: Objects) -> list[Act]:
    """Operations whose refusal carries the S3 code of its reason."""
    return [
        lambda: objects.get_if_exists("x"),
        lambda: objects.get_versioned("x"),
        lambda: objects.list(""),
        lambda: objects.put("x", b"1"),
        lambda: objects.put_if_absent("x", b"1"),
        lambda: objects.rename("x", "y"),
        lambda: objects.delete("x"),
        lambda: objects.delete_prefix("x"),
    ]


def refusal(act: Act) -> tuple[Kind, Outcome]:
    with pytest.raises(StorageError) as caught:
        act()
    return caught.value.kind, caught.value.outcome
