"""The audit checks whether a pipeline processed each input exactly once. It finds planted faults, and reports nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from audit_spark.pipelines import CLEAN, PLANTED, Shop, policies
from kafkawire.batches import Record
from wirebroker import MockKafka
from wirebroker_audit.checks.pipeline import sentence
from wirebroker_audit.inputs.pipelines import BadPipeline, read_pipelines, turns_of
from wirebroker_audit.job import audit
from wirebroker_audit.reading.identities import part_from
from wirebroker_audit.report.formats import read_findings
from wirebroker_audit.request import Request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)


def plant(folder: Path, names: dict[str, Any]) -> tuple[list[Shop], dict[str, Any]]:
    """Writes the pipelines in `names` into one log directory. Returns the pipelines, and the faults that were planted in
    each."""
    with MockKafka(data=folder) as kafka:
        kafka.warm()
        shops = [Shop(kafka, name) for name in names]
        return shops, {shop.name: names[shop.name](shop) for shop in shops}


def follow(spark: SparkSession, folder: Path, shops: list[Shop], **options: Any) -> Any:
    (folder / "pipelines.toml").write_text(policies(shops))
    request = Request(out=folder / "out", path=folder / "logs", pipeline=(str(folder / "pipelines.toml"),), **options)
    return audit(spark, request)


def test_every_planted_fault_is_found_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    shops, expected = plant(tmp_path / "logs", PLANTED)
    result = follow(spark, tmp_path, shops, together=False)
    kinds = {"input_unprocessed", "commit_beyond_output", "processed_twice", "output_without_input", "output_disorder",
             "commit_jump"}  # fmt: skip
    found: dict[str, set[Any]] = {name: set() for name in expected}
    for each in read_findings(tmp_path / "out"):
        if each["kind"] in kinds:
            name, _, side = each["topic"].partition(".")
            found[name].add((each["kind"], side, each["first_offset"], each["last_offset"], each["severity"]))
    assert found == {name: set(map(tuple, each)) for name, each in expected.items()}
    assert result.summary["complete"]
    ids = [each["id"] for each in read_findings(tmp_path / "out")]
    assert len(ids) == len(set(ids))


def test_what_is_allowed_is_no_finding(spark: SparkSession, tmp_path: Path) -> None:
    shops, _ = plant(tmp_path / "logs", CLEAN)
    result = follow(spark, tmp_path, shops)
    assert result.summary["findings"] == {}, [each["explanation"] for each in result.findings]
    assert len(result.summary["followed"]) == len(CLEAN)


def test_what_cannot_be_read_is_not_missing(spark: SparkSession, tmp_path: Path) -> None:
    """Each topic has one partition. In each pipeline, the segment of one topic is a link that leads nowhere."""
    with MockKafka(data=tmp_path / "logs") as kafka:
        kafka.warm()
        shops = [Shop(kafka, name) for name in ("inputs", "outputs", "transactions")]
        shops[2].policy["match"] = "transaction"
        for shop in shops:
            shop.transform(*range(12), upto=12)
    for topic in ("inputs.in", "outputs.out", "transactions.in"):
        (segment,) = (tmp_path / "logs" / f"{topic}-0").glob("*.log")
        segment.unlink()
        segment.symlink_to("nowhere")
    result = follow(spark, tmp_path, shops)
    assert not result.summary["complete"]
    assert [each["kind"] for each in result.findings] == []
    assert [sentence(each) for each in result.summary["followed"]] == [
        "pipeline inputs: 0 inputs, 12 outputs; outputs whose inputs may be unread 12",
        "pipeline outputs: 12 inputs, 0 outputs; inputs whose outputs may be unread 12",
        "pipeline transactions: nothing was compared",
    ]
    said = "pipeline transactions: transactions.in was not read whole, so no transaction was compared"
    assert said in result.summary["problems"]


@pytest.mark.parametrize("format", ["parquet", "orc", "json", "csv", "jdbc"])
def test_a_table_is_an_output(spark: SparkSession, tmp_path: Path, format: str) -> None:
    with MockKafka(data=tmp_path / "logs") as kafka:
        kafka.warm()
        shop = Shop(kafka, "sink")
        shop.commit(12)
    rows = [(f"o{number}", number * 3) for number in [*range(5), *range(6, 12), 7, 99]]
    table = spark.createDataFrame(rows, "order_id string, total long").coalesce(1)
    options = {"path": str(tmp_path / "table")} | ({"header": "true"} if format == "csv" else {})
    if format == "jdbc":
        spark._jvm.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))  # type: ignore[union-attr]
        driver = "org.apache.derby.iapi.jdbc.AutoloadedDriver"
        options = {"url": f"jdbc:derby:{tmp_path / 'shop'};create=true", "driver": driver, "dbtable": "orders"}
    table.write.format(format).options(**options).save()
    told = "".join(f'{name} = "{value}"\n' for name, value in options.items())
    (tmp_path / "table.toml").write_text(f'format = "{format}"\nkey = "order_id"\n[options]\n{told}')
    shop.policy["out"] = "table.toml"
    result = follow(spark, tmp_path, [shop])
    found = {(each["kind"], json.loads(each["evidence"])["id"], each["first_offset"]) for each in result.findings}
    assert found == {
        ("input_unprocessed", "'o5'", 5), ("processed_twice", "'o7'", -1), ("output_without_input", "'o99'", -1),
    }  # fmt: skip
    (row,) = result.summary["followed"]
    assert sentence(row) == (
        "pipeline sink: 12 inputs, 13 outputs; without output 1, processed twice 1, outputs without input 1"
    )


@pytest.mark.parametrize("match", ["header:id", "transaction"])
def test_a_live_cluster(spark: SparkSession, tmp_path: Path, match: str) -> None:
    with MockKafka() as kafka:
        kafka.warm()
        shop = Shop(kafka, "live")
        shop.transform(*range(4), upto=4)
        shop.transform(4, upto=7)
        request = Request(
            out=tmp_path / "out",
            bootstrap=kafka.bootstrap_servers,
            pipeline=(f"in:{shop.source}=out:{shop.sink}",),
            match=match,
        )
        result = audit(spark, request)
    assert [(each["kind"], each["first_offset"], each["last_offset"]) for each in result.findings] == [
        ("commit_beyond_output", 5 if match == "header:id" else 4, 6)
    ]
    assert "Groups and pipelines" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("in:orders", "expected in:TOPIC=out:TOPIC"),
        ("out:invoices=in:orders", "expected in:TOPIC=out:TOPIC"),
        ("in:orders=out:", "expected in:TOPIC=out:TOPIC"),
        ("in:orders=out:orders", "orders is an input and an output"),
        ("in:orders=out:absent.toml", "No such file"),
    ],
)
def test_a_wrong_pipeline_is_refused(text: str, words: str) -> None:
    with pytest.raises((BadPipeline, OSError), match=words):
        read_pipelines([text], None)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("match = 'heather:id'", "'heather:id' is not known; expected key, header:NAME"),
        ("match = 'value:order.id'", "is not the path of one value"),
        ("match = 'value:$.lines[*].id'", "is not the path of one value"),
        ("fan_out = 0", "fan_out must be a number from 1 on"),
        ("fan_out = [3, 1]", "3 is more than 1"),
        ("may_drop = 'draft'", "a condition such as"),
        ("begin = 'now'", "begin must be earliest or latest"),
        ("may_drp = true", "did you mean 'may_drop'?"),
        ("match = 'transaction'\norder = false", "order needs the contents of records"),
        ("match = 'transaction'\nmay_drop = 'key=x'", "may_drop has a condition"),
        ("out = 5", "out must be a topic or a list of topics"),
    ],
)
def test_a_wrong_policy_is_refused(tmp_path: Path, policy: str, words: str) -> None:
    start = "" if policy.startswith("out") else "out = 'invoices'\n"
    (tmp_path / "p.toml").write_text(f"[pipelines.billing]\nin = 'orders'\n{start}{policy}\n")
    with pytest.raises(BadPipeline, match=re.escape(words)):
        read_pipelines([str(tmp_path / "p.toml")], None)
    with pytest.raises(BadPipeline, match="it needs --pipeline"):
        read_pipelines([], "key")


def test_the_inputs_of_a_chain_are_asked_after_its_outputs(tmp_path: Path) -> None:
    turns = turns_of(read_pipelines(["in:b=out:c", "in:a=out:b", "in:c=out:a"], None))
    assert turns["a"] > turns["b"] > 0
    assert turns_of(read_pipelines(["in:a=out:b", "in:b=out:c"], None)) == {"b": 1, "a": 2}


RECORD = Record(
    0, 0, b"k1", b'{"order": {"id": 17, "price": 1.50, "lines": [{"a b": "x"}], "ok": true, "none": null}}',
    [("id", b"old"), ("id", b"new"), ("empty", None)],
)  # fmt: skip


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("key", b"k1"), ("header:id", b"new"), ("header:empty", None), ("header:absent", None), ("timestamp", b"5"),
        ("value:$.order.id", b"17"), ("value:$.order.price", b"1.50"), ("value:$.order.lines[0]['a b']", b"x"),
        ("value:$.order.ok", b"true"), ("value:$.order.none", None), ("value:$.order.lines[1]", None),
        ("value:$.order.id.more", None), ("value:$['order']['id']", b"17"), ('value:$.order.lines[0]["a b"]', b"x"),
    ],
)  # fmt: skip
def test_what_identifies_a_record(part: str, expected: bytes | None) -> None:
    assert part_from(part).of(RECORD, 5) == expected
    assert str(part_from(part)) == part


def test_values_that_are_hostile_or_have_the_id_of_a_schema() -> None:
    at = part_from("value:$.id")
    for value in (b"", b"{", b"[" * 100_000, b'{"id": ' + b"[" * 100_000, b"\xff\xfe", b"\0\0\0\0", b"17", None):
        assert at.of(Record(0, 0, None, value), 0) is None
    assert at.of(Record(0, 0, None, b'\0\0\0\0\x07{"id": "a"}'), 0) == b"a"
    assert at.of(Record(0, 0, None, b'{"id": "\\ud800"}'), 0) == b"\xed\xa0\x80"
    assert at.of(Record(0, 0, None, b'{"id": ' + b"9" * 5000 + b"}"), 0) == b"9" * 5000
