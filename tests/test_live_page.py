"""The live page in a real browser. Needs Chromium; set CHROMIUM if it is not on PATH."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from urllib.parse import quote

import msgspec
import pytest
from msgspec import Struct
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from actors import ClassicMember, TransactionalProducer
from kafkawire.printable import printable
from requesting import fetch, join_group, plain, produce_request
from test_filters import FOUND, FOUND_BY_ITS_BATCH, MATCHED, ROWS
from wirebroker import MockKafka, ProxyKafka, faults
from wirebroker.client.wire import Connection, address_of
from wirebroker.commands.cli import main
from wirebroker.control.endpoints.events import ALWAYS
from wirebroker.control.server import Control, control_of_proxy
from wirebroker.net.thread import LoopThread
from wirebroker.trace.brief import brief
from wirebroker.trace.filters import parsed
from wirebroker.trace.layout import time_of_day
from wirebroker.trace.rows import EVENTS, ReplyRow, Row
from wirebroker_tools.capture.session import Session
from wirebroker_tools.live.saved_file import SavedFile
from wirebroker_tools.live.table import OF_FILES
from wirebroker_tools.traces.folds import Fold, folded
from wirekit import NOW, batch

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
WITHIN_MS = 20_000
HOSTILE = "<img src=x onerror=alert(1)>"
UNSEEN = "\x1b[31m\u202e\u200b"
"""Parts of a client id: text that looks like markup, and invisible characters. (A topic cannot have such a name.)"""

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
    pytest.mark.xdist_group("browser"),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=WITHIN_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def is_wrong(said: ConsoleMessage) -> bool:
    """Tells whether a console message is an error of the page. (Browsers also report HTTP responses such as 422.)"""
    return said.type == "error" and not said.text.startswith("Failed to load resource")


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A browser page. The test fails if a script on the page fails, or if the content security policy refuses something."""
    page = browser.new_page(viewport={"width": 1300, "height": 750})
    page.set_default_timeout(WITHIN_MS)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if is_wrong(said) else None)
    page.on("dialog", lambda dialog: wrong.append(f"a dialog: {dialog.message}"))
    yield page
    page.close()
    assert wrong == []


@pytest.fixture
def kafka() -> Iterator[MockKafka]:
    with MockKafka(topics={"orders": 2}, control=True, trace="exchanges") as kafka:
        yield kafka


def send(
    kafka: MockKafka, *sequences: int, producer_id: int = 7, client_id: str = "tests", partition: int = 0, acks: int = -1,
    count: int = 1,
) -> None:  # fmt: skip
    """Sends one batch of `count` records for each sequence."""
    connection = Connection(address_of(kafka.bootstrap_servers), client_id=client_id)
    for sequence in sequences:
        data = batch(sequence, count, pid=producer_id, epoch=-1 if producer_id < 0 else 0)
        connection.request(produce_request("orders", data, partition, acks), 9)
    connection.close()


def show(page: Page, kafka: MockKafka, view: str, **words: Any) -> None:
    query = "&".join(f"{key}={quote(str(value))}" for key, value in words.items())
    page.goto(f"{kafka.control_url}/live/#/{view}?{query}")


def test_exchanges_are_rows_and_the_chosen_one_is_shown_with_its_bytes(page: Page, kafka: MockKafka) -> None:
    show(page, kafka, "exchanges", fold="no")
    expect(page.locator("#state")).to_contain_text("broker")
    send(kafka, 0, 0)
    page.locator(".row", has_text="duplicate of offset 0").click()
    expect(page.locator("aside")).to_contain_text("not stored again")
    page.locator(".row", has_text="answered").last.click()
    expect(page.locator("aside .field", has_text="transactional_id")).to_be_visible()
    page.locator("aside .field", has_text="acks").hover()
    expect(page.locator(".hex .marked")).to_have_text(["ff", "ff"])
    page.keyboard.press("Escape")
    expect(page.locator("aside")).to_have_count(0)


def test_an_address_leads_to_the_same_row_and_filter(page: Page, kafka: MockKafka) -> None:
    send(kafka, 0, 0, 1)
    show(page, kafka, "exchanges", where="verdict=duplicate")
    expect(page.locator(".row")).to_have_count(1)
    page.locator(".row").click()
    page.wait_for_url("**row=*")
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    expect(page.locator("aside")).to_contain_text("not stored again")
    expect(page.locator("#where")).to_have_value("verdict=duplicate")
    expect(page.locator(".row")).to_have_count(1)


def test_a_wrong_filter_is_explained(page: Page, kafka: MockKafka) -> None:
    show(page, kafka, "exchanges")
    page.keyboard.press("/")
    page.keyboard.type("apj=Produce")
    expect(page.locator("#wrong")).to_have_text("no row has a field 'apj'; did you mean 'api'?")


def test_the_page_filters_as_python_does(page: Page, kafka: MockKafka) -> None:
    page.goto(f"{kafka.control_url}/live/")
    rows = {name: json.loads(row.as_json()) for name, row in ROWS.items()}
    filters = [[parsed(text).tree(), names.split()] for text, names in FOUND]
    chosen = page.evaluate(
        "async ([rows, filters]) => { const { met } = await import('/live/fields.js');"
        " return filters.map(([tree]) => Object.keys(rows).filter((name) => met(tree)(rows[name]))); }",
        [rows, filters],
    )
    assert chosen == [names for _, names in filters]
    trees = [parsed(text).tree() for text, _ in FOUND_BY_ITS_BATCH]
    met = page.evaluate(
        "async ([row, trees]) => { const { met } = await import('/live/fields.js');"
        " return trees.map((tree) => met(tree)(row)); }",
        [json.loads(MATCHED.as_json()), trees],
    )
    assert met == [met for _, met in FOUND_BY_ITS_BATCH]


def test_the_page_reads_and_words_rows_as_python_does(page: Page, kafka: MockKafka) -> None:
    kafka.create_topic("payments")
    send(kafka, *range(3), 1, 7)
    send(kafka, 0, producer_id=8, acks=1)
    send(kafka, -1, -1, producer_id=-1)
    send(kafka, 2**31 - 1, 0, producer_id=9, partition=1, count=3)
    # Rows and events are read in one call, because another row (the end of a connection) can be added at any time.
    rows, sent = kafka._call(lambda engine: (kafka.trace.events(), engine.trace.after(0, 1000)[1]))
    made = [json.loads(row.as_json()) | {"parts": list(row.parts())} for row in (*rows, *ROWS.values())]
    page.goto(f"{kafka.control_url}/live/")
    read = page.evaluate(
        "async ([rows, run]) => { const { rowOf, partsOf } = await import('/live/rows.js');"
        " return rows.map((row, at) => { const { id, ...read } = rowOf(row, at, run);"
        " return { ...read, parts: partsOf(read) }; }); }",
        [msgspec.to_builtins([*sent, *map(brief, ROWS.values())]), ALWAYS],
    )
    assert {"produce", "reply", "topic", "fetch", "fault"} <= {row["event"] for row in read}
    assert read == made


def test_producers_show_their_windows(page: Page, kafka: MockKafka) -> None:
    send(kafka, *range(7), 6)
    show(page, kafka, "producers")
    row = page.locator("tbody tr")
    expect(row.locator(".box")).to_have_text(["2–2", "3–3", "4–4", "5–5", "6–6"])
    expect(row).to_contain_text("duplicate")
    send(kafka, 7)
    expect(row.locator(".box").last).to_have_text("7–7")


def test_the_log_draws_each_batch_where_it_lies(page: Page, kafka: MockKafka) -> None:
    kafka.faults.add(faults.lose_ack(api="Produce", topic="orders", nth=2, then="silence"))
    with contextlib.suppress(OSError):
        send(kafka, 0, 1)
    send(kafka, 1, 5)
    send(kafka, 0, partition=1, producer_id=8)
    show(page, kafka, "timeline", at="orders-0")
    sheet = page.locator(".sheet")
    expect(sheet.locator("rect.half")).to_have_count(2)
    expect(sheet).to_contain_text("duplicate of 1")
    expect(sheet).to_contain_text("OUT_OF_ORDER_SEQUENCE_NUMBER")
    expect(sheet).to_contain_text("⚡ lose_ack")
    page.locator(".tools select").select_option("orders-1")
    expect(sheet).to_contain_text("producer 8")
    page.reload()
    show(page, kafka, "log", at="orders-1")
    expect(sheet).to_contain_text("producer 8")
    expect(sheet).not_to_contain_text("duplicate")


def test_groups_and_producers_have_pictures(page: Page, kafka: MockKafka) -> None:
    from kafka import KafkaConsumer

    send(kafka, *range(7))
    consumer = KafkaConsumer("orders", bootstrap_servers=kafka.bootstrap_servers, group_id="billing", client_id="till")
    consumer.partitions_for_topic("orders")  # otherwise kafka-python may wait for ever
    consumer.poll(2000)
    show(page, kafka, "groups")
    expect(page.locator(".sheet")).to_contain_text("orders-1")
    expect(page.locator(".sheet rect.half", has_text="till has orders-1")).to_have_count(1)
    consumer.close()
    expect(page.locator(".sheet rect", has_text="till leaves")).to_have_count(1)
    show(page, kafka, "producers")
    expect(page.locator(".sheet")).to_contain_text("forgotten")
    expect(page.locator(".sheet text", has_text="seq 6 → offset 6")).to_be_visible()


def test_the_sequence_diagram_zooms_and_leads_to_fields(page: Page, kafka: MockKafka) -> None:
    show(page, kafka, "sequence")
    expect(page.locator("main")).to_contain_text("orders: created")
    send(kafka, 0, 0, client_id=HOSTILE)
    duplicate = page.locator(".sheet g[data-row]", has_text="duplicate of offset 0").last
    expect(page.locator(".heads")).to_contain_text(HOSTILE[:8])
    duplicate.click()
    expect(page.locator("aside")).to_contain_text("not stored again")
    send(kafka, *range(1, 300))
    page.keyboard.press("0")
    fold = page.locator(".sheet g[data-first]", has_text="× Produce").last
    expect(fold).to_be_visible()
    page.keyboard.press("Escape")
    fold.click()
    page.wait_for_url("**from=*")
    expect(page.locator(".sheet g[data-row]", has_text="is the next of").first).to_be_visible()
    page.keyboard.press("-")
    expect(page.locator(".strip rect.tint")).to_have_count(1)
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    expect(page.locator(".sheet g[data-row], .sheet g[data-first]").first).to_be_visible()
    assert page.locator("img").count() == 0


def test_transactions_and_groups_have_tables(page: Page, kafka: MockKafka) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id="pay-1")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"tea", partition=1).get(10)
    show(page, kafka, "transactions")
    expect(page.locator("tbody tr").first).to_contain_text("pay-1Ongoing")
    expect(page.locator("tbody tr").first).to_contain_text("orders-1")
    producer.abort_transaction()
    expect(page.locator("tbody tr").first).to_contain_text("CompleteAbort")
    producer.close()
    consumer = KafkaConsumer("orders", bootstrap_servers=kafka.bootstrap_servers, group_id="billing")
    consumer.partitions_for_topic("orders")  # otherwise kafka-python may wait for ever
    consumer.poll(2000)
    show(page, kafka, "groups")
    expect(page.locator("tbody tr").first).to_contain_text("billing")
    consumer.close()


def test_clients_show_what_they_speak_and_nothing_becomes_markup(page: Page, kafka: MockKafka) -> None:
    send(kafka, 0, client_id=HOSTILE + UNSEEN)
    show(page, kafka, "clients")
    row = page.locator("tbody tr", has_text=HOSTILE + printable(UNSEEN))
    expect(row).to_contain_text("Produce v9 ×1")
    expect(row).to_contain_text("producer 7")
    for view in ("exchanges", "sequence", "log", "producers"):
        show(page, kafka, view)
        expect(page.locator("main")).not_to_be_empty()
    assert page.locator("img").count() == 0


def test_a_fault_is_loaded_and_its_firing_shown(page: Page, kafka: MockKafka) -> None:
    show(page, kafka, "faults")
    page.locator("textarea").fill('[[fault]]\nkind = "loose_ack"\n')
    page.get_by_role("button", name="load").click()
    expect(page.get_by_role("alert")).to_contain_text("did you mean 'lose_ack'?")
    page.locator("textarea").fill('[[fault]]\nkind = "error"\napi = "Produce"\ncode = "NOT_LEADER_OR_FOLLOWER"\nnth = 1\n')
    page.get_by_role("button", name="load").click()
    expect(page.locator("tbody tr")).to_contain_text("not yet")
    send(kafka, 0)
    expect(page.locator("tbody tr")).to_contain_text("✓ fired")
    page.get_by_text("✓ fired").click()
    expect(page.locator(".row.chosen, .row").first).to_contain_text("fault")
    show(page, kafka, "faults")
    page.get_by_role("button", name="remove").click()
    expect(page.locator("tbody tr")).to_have_count(0)
    assert kafka.faults.rules == []


def test_the_page_connects_again_and_begins_again_after_a_reset(page: Page, kafka: MockKafka) -> None:
    send(kafka, 0)
    show(page, kafka, "exchanges", where="event=produce")
    expect(page.locator(".row")).to_have_count(1)

    def cut(_: Any) -> None:
        assert kafka._control is not None
        for connection in list(kafka._control._state.connections):
            connection.transport.abort()

    kafka._call(cut)
    expect(page.locator("#state")).to_contain_text("lost")
    send(kafka, 1)
    expect(page.locator(".row")).to_have_count(2)
    page.evaluate("fetch('/reset', { method: 'POST' })")
    expect(page.locator(".row")).to_have_count(0)
    send(kafka, 0)
    expect(page.locator(".row")).to_have_count(1)


def test_a_hundred_thousand_rows_stay_quick(page: Page, kafka: MockKafka) -> None:
    show(page, kafka, "exchanges")

    def add(first: int) -> None:
        def rows(engine: Any) -> None:
            for number in range(first, first + 5000):
                row = ReplyRow(number, 1, 1, f"client-{number % 100}", "", "Produce", 9, number, 57, 0, (), ("orders-0",))
                engine.trace._add(row)

        kafka._call(rows)

    for first in range(0, 100_000, 5000):
        add(first)
        expect(page.locator("#state")).to_contain_text(f"{first + 5001:,} rows")
    assert page.locator(".row").count() < 200
    page.fill("#where", "client=client-7")
    expect(page.locator("#state")).to_contain_text("1,000 of 100,001 rows")
    longest = page.evaluate(
        "async () => { const { met } = await import('/live/fields.js'); const { Feed } = await import('/live/feed.js');"
        " const feed = new Feed(); for (let id = 1; id <= 100000; id++)"
        " feed.rows.push({ id, event: 'reply', client_id: `client-${id % 100}` });"
        " const wanted = met(['is', 'client', '=', 'client-7']); const began = performance.now();"
        " const found = feed.rows.filter(wanted).length; return [found, performance.now() - began]; }"
    )
    assert longest[0] == 1000
    assert longest[1] < 1000, "a filter of 100,000 rows takes some 40 ms on a quiet machine"


def test_chosen_rows_are_exported(page: Page, kafka: MockKafka) -> None:
    show(page, kafka, "exchanges")
    expect(page.locator("#state")).to_contain_text("broker")
    send(kafka, 0, 0)
    page.fill("#where", "verdict=duplicate")
    expect(page.locator(".row")).to_have_count(1)

    def exported(name: str) -> bytes:
        page.get_by_text("export", exact=True).click()
        with page.expect_download() as saved:
            page.get_by_role("button", name=name).click()
        return saved.value.path().read_bytes()

    assert [json.loads(line)["verdict"] for line in exported("JSON lines").splitlines()] == ["duplicate"]
    assert b"duplicate of offset 0" in exported("pcapng")
    assert b"produce" in exported("scenario")
    page.fill("#where", "event=topic")
    expect(page.locator(".row")).to_have_count(1)
    page.get_by_text("export", exact=True).click()
    page.get_by_role("button", name="scenario").click()
    expect(page.locator("#wrong")).to_contain_text("there is nothing to produce")


def test_it_fits_a_phone_and_a_dark_screen(browser: Browser, kafka: MockKafka) -> None:
    send(kafka, 0)
    context = browser.new_context(viewport={"width": 380, "height": 700}, color_scheme="dark")
    page = context.new_page()
    for view in ("exchanges", "sequence", "producers", "log", "transactions", "groups", "clients", "faults"):
        show(page, kafka, view)
        expect(page.locator("main")).not_to_be_empty()
        assert page.evaluate("document.documentElement.scrollWidth") <= 380, view
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    context.close()


def test_the_page_is_only_for_its_own_names(kafka: MockKafka) -> None:
    from controlkit import ControlClient

    control = ControlClient(kafka.control_url)
    good = control.raw("GET", "/live/app.js")
    assert good.status == 200
    assert good.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    assert control.raw("GET", "/live/app.js", headers={"Host": "evil.example"}).status == 403
    assert control.raw("GET", "/live/%2e%2e/app.py").status == 404


def test_faults_of_python_are_on_the_page(page: Page, kafka: MockKafka) -> None:
    kafka.faults.add(faults.lose_ack(topic="orders", nth=4))
    show(page, kafka, "faults")
    expect(page.locator("tbody tr")).to_contain_text("lose_ack(topic=orders, nth=4, then=disconnect)")


def test_what_is_wrong_is_told_with_its_rows(page: Page, kafka: MockKafka) -> None:
    show(page, kafka, "explain")
    expect(page.locator("#view")).to_contain_text("Nothing is wrong in the latest")
    kafka.faults.add(faults.error(19, api="Produce"))
    send(kafka, *range(25), client_id=HOSTILE)
    expect(page.locator("#view h2")).to_contain_text("retry_storm")
    expect(page.locator("#view")).to_contain_text("min.insync.replicas")
    expect(page.locator("#view")).to_contain_text(HOSTILE)
    page.locator("#view li a").first.click()
    expect(page.locator("aside")).to_contain_text("NOT_ENOUGH_REPLICAS")
    page.go_back()
    page.locator("#view p a").click()
    expect(page.locator("#where")).to_have_value(f'api=Produce client="{HOSTILE}" error=NOT_ENOUGH_REPLICAS')
    expect(page.locator(".row")).to_have_count(25)


def test_a_proxy_shows_open_transactions_and_groups_with_commands_that_are_safe_to_paste(page: Page, kafka: MockKafka) -> None:
    kafka.warm()
    with ProxyKafka(upstream=kafka.bootstrap_servers, control=True, trace="changes") as proxy:
        name = "--all'; x"
        member = ClassicMember(proxy, group=name)
        member.join()
        member.sync()
        producer = TransactionalProducer(proxy, "till")
        producer.init()
        producer.send("tea")
        producer.send_offsets(name, 0)
        page.goto(f"{proxy.control_url}/live/#/transactions")
        expect(page.locator("pre")).to_contain_text("forceTerminateTransaction --transactionalId=till")
        expect(page.locator("td", has_text="aborted after 60 s")).to_be_visible()
        page.goto(f"{proxy.control_url}/live/#/groups")
        expect(page.locator(".box", has_text="orders-0 at 0, lag")).to_contain_text("pending")
        shown = page.locator("pre").inner_text().splitlines()
        assert [shlex.split(line)[-1] for line in shown] == [f"--group={name}", f"--member-id={member.member}"]


def test_escape_takes_the_filter_away_with_its_text(page: Page, kafka: MockKafka) -> None:
    send(kafka, 0)
    show(page, kafka, "exchanges", where="verdict=rejected")
    expect(page.locator(".row")).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    expect(page.locator("#where")).to_have_value("")
    expect(page.locator(".row").first).to_be_visible()
    assert "where" not in page.url


def test_a_filter_that_no_row_meets_is_told_from_a_broker_without_rows(page: Page, kafka: MockKafka) -> None:
    with MockKafka(control=True) as idle:
        show(page, idle, "exchanges")
        expect(page.locator(".empty")).to_contain_text("No row yet. Point a client at the broker")
    send(kafka, 0)
    show(page, kafka, "exchanges", where="topic=ordres api=Produce")
    expect(page.locator(".empty")).to_contain_text("rows meets the filter topic=ordres api=Produce")
    page.get_by_role("link", name="topic=orders api=Produce").click()
    expect(page.locator(".row").first).to_be_visible()


def test_rows_of_a_proxy_that_starts_again_stay_and_a_dead_broker_is_named(page: Page) -> None:
    with MockKafka(topics={"orders": 1}) as broker:
        with ProxyKafka(upstream=broker.bootstrap_servers, control=True, trace="exchanges") as proxy:
            address = address_of(proxy.control_url.removeprefix("http://"))
            send_to(proxy, 0)
            page.goto(f"{proxy.control_url}/live/#/exchanges?where=event=shadow")
            expect(page.locator(".row")).to_have_count(1)
        expect(page.locator("#problem")).to_contain_text(f"Nothing has answered at 127.0.0.1:{address[1]} since")
        expect(page.locator(".row")).to_have_count(1)
        with ProxyKafka(upstream=broker.bootstrap_servers, trace="exchanges") as proxy:
            control_at(proxy, address)
            expect(page.locator("#problem")).to_be_empty()
            send_to(proxy, 1, 2)
            expect(page.locator(".row")).to_have_count(3)
            page.locator(".row").last.click()
            expect(page.locator("aside")).to_contain_text("stored at offset 2")
            broker.stop()
            send_in_vain(proxy)
            expect(page.locator("#problem")).to_contain_text("cannot be reached: Connection refused")
            expect(page.locator(".row")).to_have_count(3)


def send_to(proxy: ProxyKafka, *sequences: int) -> None:
    connection = Connection(address_of(proxy.bootstrap_servers))
    for sequence in sequences:
        connection.request(produce_request("orders", batch(sequence, 1, pid=7, epoch=0)), 9)
    connection.close()


def send_in_vain(proxy: ProxyKafka) -> None:
    with pytest.raises(ConnectionError):
        send_to(proxy, 3)


def control_at(proxy: ProxyKafka, address: tuple[str, int]) -> None:
    """Open a proxy's control at `address`."""
    proxy._control = proxy._in_loop(control_of_proxy)
    assert proxy._thread is not None
    proxy._thread.await_(proxy._control.listen(*address))


def test_clients_are_named_in_rows_and_what_is_chosen_can_be_copied(page: Page, kafka: MockKafka) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    show(page, kafka, "exchanges", fold="no")
    expect(page.locator("#state")).to_contain_text("broker")
    send(kafka, 0, client_id="billing")
    row = page.locator(".row", has_text="answered").last
    expect(row.locator(".i")).to_have_text("billing")
    expect(page.locator(".captions")).to_contain_text("client")
    row.click()
    expect(row.locator(".n")).to_contain_text("ms 57 B")
    assert row.locator(".n").evaluate("cell => cell.scrollWidth <= cell.clientWidth"), "the cell is too narrow for the latency"

    def copied(name: str, which: int = 0) -> str:
        page.get_by_role("button", name=name).nth(which).click()
        expect(page.get_by_role("button", name="copied")).to_be_visible()
        text: str = page.evaluate("navigator.clipboard.readText()")
        expect(page.get_by_role("button", name="copied")).to_have_count(0)
        return text

    assert json.loads(copied("copy row"))["client_id"] == "billing"
    for which, shown in ((0, "Produce v9 request"), (1, "Produce v9 response")):
        assert bytes.fromhex(copied("copy hex", which))
        command = shlex.split(copied("copy command", which))
        assert command[:2] == ["wirebroker", "decode"]
        out = io.StringIO()
        with redirect_stdout(out):
            assert main(command[1:]) == 0
        assert out.getvalue().startswith(shown)


def test_bytes_are_kept_without_a_reader_if_there_is_a_capture(page: Page, tmp_path: Path) -> None:
    with MockKafka(topics={"orders": 1}, control=True, trace="exchanges", capture=tmp_path / "a.pcapng") as kafka:
        send(kafka, 0)
        show(page, kafka, "exchanges", fold="no")
        page.locator(".row", has_text="answered").last.click()
        expect(page.locator("aside .field", has_text="transactional_id")).to_be_visible()


def test_rows_that_repeat_are_one_line_until_it_is_opened(page: Page, kafka: MockKafka) -> None:
    show(page, kafka, "exchanges", where="api=Fetch")
    connection = Connection(address_of(kafka.bootstrap_servers), client_id="reader")
    for _ in range(20):
        connection.request(fetch(0), 12)
    folded = page.locator(".row.folded")
    expect(folded).to_contain_text("19 × Fetch")
    expect(folded).to_contain_text("0 errors")
    expect(page.locator(".row")).to_have_count(2)
    folded.click()
    expect(page.locator(".row")).to_have_count(21)
    folded.click()
    expect(page.locator(".row")).to_have_count(2)
    page.keyboard.press("f")
    expect(page.locator(".row")).to_have_count(40)
    expect(folded).to_have_count(0)


def test_the_page_folds_as_python_does(page: Page, kafka: MockKafka) -> None:
    connection = Connection(address_of(kafka.bootstrap_servers), client_id="reader")
    for number in range(30):
        connection.request(fetch(0), 12)
        connection.request(plain("Metadata", topics=[{"name": "orders"}]), 8)
        if number % 9 == 8:
            send(kafka, number, 5000, producer_id=number)
    rows = kafka.trace.events()
    found = [(0, *each.words()) if isinstance(each, Fold) else (rows.index(each), "", "") for each in folded(rows)]
    page.goto(f"{kafka.control_url}/live/")
    made = page.evaluate(
        "async (rows) => { const { Lines, Fold } = await import('/live/folds.js'); const lines = new Lines();"
        " rows.forEach((row, id) => lines.add({ ...row, id }));"
        " return lines.entries.map((each) => [each.id, ...(each instanceof Fold ? each.words() : ['', ''])]); }",
        [json.loads(row.as_json()) for row in rows],
    )
    assert [each[1:] for each in made] == [list(each[1:]) for each in found]
    assert sum(bool(each[1]) for each in made) >= 3


def test_a_wide_screen_and_a_phone_show_everything(browser: Browser, kafka: MockKafka) -> None:
    send(kafka, 0, client_id="billing")
    for width in (400, 1200, 2200):
        page = browser.new_page(viewport={"width": width, "height": 800})
        show(page, kafka, "clients")
        expect(page.locator("tbody tr")).to_have_count(1)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        right = page.locator("tbody").evaluate("body => body.getBoundingClientRect().right")
        assert width * 0.9 < right <= width
        assert page.evaluate("[...document.querySelectorAll('td')].every((cell) => cell.scrollWidth <= cell.clientWidth + 1)")
        page.close()


@pytest.mark.parametrize("width", [400, 420, 800, 1400])
def test_the_captions_stand_above_their_columns(browser: Browser, kafka: MockKafka, width: int) -> None:
    send(kafka, *range(3), client_id="billing")
    page = browser.new_page(viewport={"width": width, "height": 800})
    show(page, kafka, "exchanges", fold="no")
    expect(page.locator(".row", has_text="accepted").first).to_be_visible()
    shown = "[...each.children].filter((cell) => cell.clientWidth && !cell.classList.contains('r'))"
    left = f"(each) => {shown}.map((cell) => cell.getBoundingClientRect().left)"
    captions, columns = page.locator(".captions").evaluate(left), page.locator(".row").last.evaluate(left)
    assert captions == pytest.approx(columns, abs=1)
    assert len(columns) >= 4
    page.close()


def test_a_produce_without_a_response_is_counted(page: Page, kafka: MockKafka) -> None:
    connection = Connection(address_of(kafka.bootstrap_servers), client_id="fire-and-forget")
    for _ in range(3):
        connection.send(produce_request("orders", batch(), acks=0), 9)
    show(page, kafka, "clients")
    expect(page.locator("tbody")).to_contain_text("Produce v9 ×3")
    connection.close()


def test_each_exchange_has_one_line(page: Page) -> None:
    with MockKafka(topics={"orders": 2}, control=True, trace="all") as kafka:
        send(kafka, 0, 0)
        kafka.faults.add(faults.error("INVALID_REQUEST", api="Produce"))
        send(kafka, 1)
        kafka.faults.clear()
        connection = Connection(address_of(kafka.bootstrap_servers), client_id="reader")
        connection.request(fetch(0), 12)
        connection.request(plain("Metadata", topics=[{"name": "orders"}]), 8)
        connection.send(fetch(1, wait_ms=60_000), 12)
        show(page, kafka, "exchanges")
        outcomes = page.locator(".row .o")
        expect(outcomes).to_have_text(
            ["changed", "opened", "accepted", "changed", "duplicate", "closed", "opened", "fault", "error", "closed", "opened",
             "fetched", "answered", "asked"]
        )  # fmt: skip
        page.locator(".row", has_text="duplicate").click()
        expect(page.locator("aside summary")).to_contain_text(["request", "reply"])
        page.keyboard.press("f")
        expect(outcomes).to_have_count(len(kafka.trace.events()))
        connection.close()


def made_of(kind: Any) -> Any:
    """Makes a value of the type `kind`. None of its fields is empty."""
    of, words = get_origin(kind), get_args(kind)
    if of is Literal:
        return words[0]
    if of in (Union, UnionType):
        return made_of(next(each for each in words if each is not type(None)))
    if of is tuple:
        return (made_of(words[0]),)
    if of is dict:
        return {"member_id": "one", "session_timeout_ms": 5}
    if isinstance(kind, type) and issubclass(kind, Struct):
        hints = get_type_hints(kind)
        return kind(**{name: NOW if name == "time" else made_of(hints[name]) for name in kind.__struct_fields__})
    if hasattr(kind, "_fields") or kind not in (int, str, bool, float):
        hints = get_type_hints(kind)
        return kind(**{name: made_of(hint) for name, hint in hints.items()})
    return {int: 3, str: "text", bool: True, float: 0.5}[kind]


def test_no_value_of_any_row_is_shown_as_an_object(page: Page, tmp_path: Path, saved: Callable[[Path], str]) -> None:
    path = tmp_path / "trace.jsonl"
    rows = [made_of(row) for row in EVENTS.values()]
    path.write_text("".join(row.as_json() + "\n" for row in rows), encoding="utf-8")
    page.goto(f"{saved(path)}#/exchanges?fold=no")
    expect(page.locator(".row")).to_have_count(len(rows))
    for number in range(len(rows)):
        page.locator(".row").nth(number).click()
        expect(page.locator("aside")).to_contain_text("time")
        assert "[object" not in page.locator("body").inner_text()
    shown = page.evaluate(
        "async () => { const { printable } = await import('/live/dom.js');"
        " const odd = [{ a: 1, b: { c: [2, { d: 'e' }] } }, [{}], null, new Map([['x', { y: 1 }]]), new Set([1]), 0, false];"
        " return odd.map(printable); }"
    )
    assert shown == ["a 1, b (c (2, d e))", "", "", "x (y 1)", "1", "0", "false"]


def test_a_finding_shows_the_details_of_its_rows(page: Page, kafka: MockKafka) -> None:
    kafka.faults.add(faults.error("INVALID_SESSION_TIMEOUT", api="JoinGroup"))
    connection = Connection(address_of(kafka.bootstrap_servers), client_id="reader")
    connection.request(join_group("team"), 4)
    show(page, kafka, "explain")
    expect(page.locator("main li")).to_contain_text("session_timeout_ms")
    assert "[object" not in page.locator("body").inner_text()
    connection.close()


# Saved files


@pytest.fixture
def saved(tmp_path: Path) -> Iterator[Callable[[Path], str]]:
    """Returns a function. It serves the page for a saved trace, and returns the page's address."""
    with ExitStack() as after:

        def serve(path: Path) -> str:
            thread = LoopThread()
            after.callback(thread.stop)

            async def start() -> Control:
                control = Control(SavedFile(path), OF_FILES)
                await control.listen("127.0.0.1", 0)
                return control

            control = thread.await_(start())
            after.callback(lambda: thread.await_(control.close()))
            return f"{control.url}/live/"

        yield serve


def test_rows_that_cannot_be_read_are_a_note(page: Page, tmp_path: Path, saved: Callable[[Path], str]) -> None:
    path = tmp_path / "trace.jsonl"
    row = ReplyRow(NOW, 2**63 - 1, 1, "reader", "", "Fetch", 12, 5, 57, 0, (), ("orders-0",))  # JavaScript rounds to 2**63
    path.write_text(row.as_json() + "\n", encoding="utf-8")
    page.goto(saved(path))
    page.locator(".row").click()
    expect(page.locator("aside")).to_contain_text(
        "the other rows of this exchange cannot be read: node does not fit into 64 bits"
    )


def large(path: Path, rows: int) -> Path:
    """Writes a trace with `rows` rows. Row 70,001 has an error."""
    with path.open("w") as file:
        for number in range(rows):
            errors = ("NOT_COORDINATOR",) if number == 70_000 else ()
            row = ReplyRow(NOW + number, 1, 1, "reader", "", "Fetch", 12, number, 57, 0, errors, ("orders-0",))
            file.write(row.as_json() + "\n")
    return path


def test_a_capture_opens_with_its_bytes_and_is_exported(page: Page, tmp_path: Path, saved: Callable[[Path], str]) -> None:
    with MockKafka(topics={"orders": 2}, capture=tmp_path / "a.pcapng") as kafka:
        send(kafka, 0, 1, 1, 7, client_id="billing")
    page.goto(saved(tmp_path / "a.pcapng"))
    expect(page.locator("#file")).to_contain_text("a.pcapng: ")
    page.locator(".row", has_text="OUT_OF_ORDER").first.click()
    expect(page.locator("aside .field", has_text="transactional_id")).to_be_visible()
    page.locator("aside .field", has_text="acks").hover()
    expect(page.locator(".hex .marked")).to_have_text(["ff", "ff"])
    expect(page.locator("aside .field", has_text="error_code 45")).to_be_visible()
    expect(page.locator("aside .bad")).to_have_count(0)
    page.get_by_role("link", name="sequence").click()
    expect(page.locator(".sheet g[data-row]", has_text="duplicate of offset 1").last).to_be_visible()
    page.get_by_role("link", name="exchanges").click()
    page.fill("#where", "verdict=duplicate")
    expect(page.locator(".row")).to_have_count(1)

    def exported(name: str) -> bytes:
        page.get_by_text("export", exact=True).click()
        with page.expect_download() as download:
            page.get_by_role("button", name=name).click()
        return download.value.path().read_bytes()

    assert [json.loads(line)["verdict"] for line in exported("JSON lines").splitlines()] == ["duplicate"]
    (tmp_path / "b.pcapng").write_bytes(exported("pcapng"))
    assert b"duplicate of offset 1" in (tmp_path / "b.pcapng").read_bytes()
    rows: list[Row] = []
    Session(rows.append).read(io.BytesIO((tmp_path / "b.pcapng").read_bytes()))
    assert [row.api for row in rows if isinstance(row, ReplyRow)] == ["Produce"]
    assert b"produce" in exported("scenario")


def test_a_large_trace_is_shown_in_windows_and_searched_as_a_whole(
    page: Page, tmp_path: Path, saved: Callable[[Path], str]
) -> None:
    address = saved(large(tmp_path / "large.jsonl", 120_000))
    page.goto(address + "#/exchanges?fold=no")
    expect(page.locator("#state")).to_have_text("50,000 of 120,000 rows are loaded")
    expect(page.locator(".row").first).to_contain_text("#1")
    page.get_by_role("button", name="later rows").click()
    expect(page.locator("#state")).to_have_text("50,000 of 120,000 rows are loaded")
    expect(page.locator(".row .t").first).to_have_text(time_of_day(NOW + 50_000))
    page.fill("#where", "error=NOT_COORDINATOR")
    expect(page.locator(".row")).to_have_count(1)
    expect(page.locator("#file")).to_contain_text("120,000 rows, 1 meet the filter")
    page.locator(".row").click()
    expect(page.locator("aside h2")).to_have_text("reply 70001")
    page.wait_for_url("**row=70001*")
    page.goto("about:blank")
    page.goto(f"{address}#/exchanges?row=70001")
    expect(page.locator("aside h2")).to_have_text("reply 70001")
    page.locator("#file svg").click(position={"x": 3, "y": 10})
    expect(page.locator(".row .t").first).to_have_text(time_of_day(NOW))


def test_a_file_that_is_dropped_opens_on_a_page_of_its_own(page: Page, kafka: MockKafka, tmp_path: Path) -> None:
    show(page, kafka, "exchanges")
    page.locator("#open input").set_input_files(large(tmp_path / "dropped.jsonl", 100))
    page.wait_for_url("**/saved/1/live/**")
    expect(page.locator("#state")).to_have_text("100 of 100 rows are loaded")
    expect(page.locator("#file")).to_contain_text("dropped.jsonl: 100 rows")
    show(page, kafka, "exchanges")
    (tmp_path / "empty.jsonl").write_text("")
    page.locator("#open input").set_input_files(tmp_path / "empty.jsonl")
    expect(page.locator("#wrong")).to_have_text("empty.jsonl: empty.jsonl is empty: nothing was traced")
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8\xff" + bytes(1000) + b"\n<img src=x onerror=alert(1)>\n")
    page.locator("#open input").set_input_files(tmp_path / "photo.jpg")
    expect(page.locator("#file")).to_contain_text("photo.jpg")
    expect(page.locator(".empty")).to_have_text("The file has no row that can be read.")
