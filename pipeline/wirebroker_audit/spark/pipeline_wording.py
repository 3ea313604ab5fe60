"""The sentences about pipelines and about the application's table, which only the audit on Spark has. Their `ROW` is the row of
the finding."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column

from wirebroker_audit.spark.wording import ROW, SqlWording


class PipelineWording(SqlWording):
    """Makes the explanations of findings about pipelines."""

    def row_without_record(self, key: Any, time: Any, rows: Any, records: Any) -> Column:
        """A row of the application's table has no record; `rows` and `records` count the rows and records with the row's
        key."""
        return self.text(
            "the row with key {key} from {time} UTC has no record; the table has {rows} with this key, the log {records}",
            key=key, time=time, rows=self.choose(rows == 1, "1 row", self.text("{n} rows", n=rows)), records=records,
        )  # fmt: skip

    def _inputs(self, label: Any) -> Column:
        """`the input at offset 5, id 'o5'`, or several inputs."""
        one = self.text("the input at offset {offset}, id {label}", offset=ROW.offset, label=label)
        several = self.text(
            "the {n} inputs at offsets {offsets}, the first with id {label}",
            n=ROW.records, offsets=self.range(ROW.offset, ROW.last_offset), label=label,
        )  # fmt: skip
        return self.choose(ROW.records == 1, one, several)

    def input_unprocessed(self, label: Any) -> Column:
        """Inputs have no output, or too few outputs. `ROW.ins` inputs with the same id have `ROW.outs` outputs. An unknown
        group is ""."""
        by_group = self.text(
            "although group '{group}' has committed offset {committed}", group=ROW.group, committed=ROW.committed
        )
        alike = self.text("; {ins} inputs and {outs} outputs have this id", ins=ROW.ins, outs=ROW.outs)
        few = self.text("only {outs} of at least {least} outputs", outs=ROW.outs, least=ROW.least)
        partly = (ROW.records == 1) & (ROW.ins == 1) & (ROW.outs > 0)
        return self.text(
            "pipeline '{pipeline}' has {few} for {inputs}, {why}{alike}",
            pipeline=ROW.name, few=self.choose(partly, few, "no output"), inputs=self._inputs(label),
            why=self.choose(ROW.group == "", "although later inputs have outputs", by_group),
            alike=self.choose((ROW.records == 1) & (ROW.ins > 1), alike, ""),
        )  # fmt: skip

    def commit_beyond_output(self, label: Any) -> Column:
        """A group has committed inputs after the last input with an output."""
        at = self.text("; the last input with an output is at offset {last}", last=ROW.last_processed)
        return self.text(
            "group '{group}' has committed offset {committed}, but pipeline '{pipeline}' has no output for {inputs}{last}",
            group=ROW.group, committed=ROW.committed, pipeline=ROW.name, inputs=self._inputs(label),
            last=self.choose(ROW.last_processed < 0, ", nor for any input before", at),
        )  # fmt: skip

    def hidden_record(self, side: str) -> Column:
        """Returns the reason why the record `ROW.near` does not count as an input or as an output: its transaction was not
        committed."""
        return self.text(
            "; {side} at offset {offset} of {partition} belongs to a transaction that {state}",
            side=side, offset=ROW.near.offset, partition=self.partition(ROW.near.topic, ROW.near.partition),
            state=self.choose(ROW.near.transaction == "aborted", "was aborted", "is open"),
        )  # fmt: skip

    def processed_twice(self, label: Any) -> Column:
        """Outputs are repeated. The fields of the first output begin with `once_`, and the fields of the input begin with
        `input_`."""
        single = ROW.records == 1
        inputs = self.text(
            "{offsets} of {partition}", offsets=self.offsets(ROW.input_offset, ROW.last_input_offset),
            partition=self.partition(ROW.input_topic, ROW.input_partition),
        )  # fmt: skip
        row_again = self.text(
            "pipeline '{pipeline}' wrote {inputs} twice: another row has the id {label}",
            pipeline=ROW.name, inputs=inputs, label=label,
        )  # fmt: skip
        again = self.text(
            "pipeline '{pipeline}' processed {inputs} twice: {again} {verb} {once} of {first}; {what} id is {label}",
            pipeline=ROW.name, inputs=inputs, again=self.offsets(ROW.offset, ROW.last_offset),
            verb=self.choose(single, "repeats", "repeat"), once=self.offsets(ROW.once_offset, ROW.last_once_offset),
            first=self.partition(ROW.once_topic, ROW.once_partition), what=self.choose(single, "its", "the first"),
            label=label,
        )  # fmt: skip
        return self.choose(ROW.is_table, row_again, again)

    def _outputs(self, label: Any) -> Column:
        of_table = self.text("a row with the id {label} has", label=label)
        one = self.text("the output at offset {offset}, id {label}, has", offset=ROW.offset, label=label)
        several = self.text(
            "the {n} outputs at offsets {offsets}, the first with id {label}, have",
            n=ROW.records, offsets=self.range(ROW.offset, ROW.last_offset), label=label,
        )  # fmt: skip
        return self.choose(ROW.is_table, of_table, self.choose(ROW.records == 1, one, several))

    def output_without_input(self, label: Any) -> Column:
        """Outputs have no input."""
        return self.text("{outputs} no input in pipeline '{pipeline}'", outputs=self._outputs(label), pipeline=ROW.name)

    def output_without_id(self) -> Column:
        """Outputs lack the field that would name their input."""
        outputs = self.text(
            "{n} at {offsets}",
            n=self.choose(ROW.records == 1, "an output", self.text("{n} outputs", n=ROW.records)),
            offsets=self.offsets(ROW.offset, ROW.last_offset),
        )
        return self.text(
            "{outputs} without {part}, so the input in pipeline '{pipeline}' is not known",
            outputs=self.choose(ROW.is_table, "a row", outputs), part=ROW.what, pipeline=ROW.name,
        )  # fmt: skip

    def output_disorder(self, label: Any) -> Column:
        """The output of an input comes after the output of a later input with the same key."""
        return self.text(
            "the output at offset {offset}, id {label}, is out of order: its input is at offset {input} of {partition}, but "
            "the earlier output at offset {before} belongs to the later input at offset {later}, which has the same key "
            "(pipeline '{pipeline}')",
            offset=ROW.offset, label=label, input=ROW.input_offset,
            partition=self.partition(ROW.input_topic, ROW.input_partition), before=ROW.later.output_offset,
            later=ROW.later.input_offset, pipeline=ROW.name,
        )  # fmt: skip

    def _made(self) -> Column:
        return self.choose(ROW.outs == 1, "1 output", self.text("{n} outputs", n=ROW.outs))

    def _transaction(self) -> Column:
        return self.text("the transaction of {producer}", producer=self.producer(ROW))

    def transaction_short(self, pipeline: Any, least: int) -> Column:
        """A commit passed some inputs that have no outputs."""
        inputs = self.choose(ROW.ins == 1, "1 input", self.text("{n} inputs", n=ROW.ins))
        outside = self.text(
            "group '{group}' passed {ins} from offset {offset} on by a commit outside of a transaction, so pipeline "
            "'{pipeline}' has no output there",
            group=ROW.group, ins=inputs, offset=ROW.base_offset, pipeline=pipeline,
        )  # fmt: skip
        inside = self.text(
            "group '{group}' passed {ins} from offset {offset} on in {transaction}, which has {outs}; pipeline '{pipeline}' "
            "makes at least {least} of each input",
            group=ROW.group, ins=inputs, offset=ROW.base_offset, transaction=self._transaction(), outs=self._made(),
            pipeline=pipeline, least=least,
        )  # fmt: skip
        return self.choose(ROW.producer_id < 0, outside, inside)

    def transaction_over(self, pipeline: Any) -> Column:
        """A transaction has more outputs than inputs."""
        return self.text(
            "{transaction} has {outs} for the {ins} inputs from offset {offset} on, more than pipeline '{pipeline}' makes",
            transaction=self._transaction(), outs=self._made(), ins=ROW.ins, offset=ROW.base_offset, pipeline=pipeline,
        )  # fmt: skip

    def transaction_again(self, pipeline: Any) -> Column:
        """A transaction passed inputs that an earlier transaction has passed."""
        return self.text(
            "group '{group}' passed {again} inputs for the second time, in {transaction}, which begins with offset {offset}; "
            "pipeline '{pipeline}' has outputs of both times",
            group=ROW.group, again=ROW.again, transaction=self._transaction(), offset=ROW.base_offset, pipeline=pipeline,
        )  # fmt: skip

    def transaction_alone(self, pipeline: Any) -> Column:
        """A transaction has outputs, but passes no input."""
        return self.text(
            "{transaction} has {outs} from offset {offset} on, and passes no input of pipeline '{pipeline}' for group "
            "'{group}'",
            transaction=self._transaction(), outs=self._made(), offset=ROW.base_offset, pipeline=pipeline,
            group=ROW.group,
        )  # fmt: skip

    def outputs_elsewhere(self, pipeline: Any) -> Column:
        """A producer has outputs, but commits no offsets."""
        who = self.choose(ROW.producer_id < 0, "a producer without an id", self.producer(ROW))
        return self.text(
            "{who} wrote {outs} at {offsets}, and commits no offset of group '{group}' in a transaction (pipeline "
            "'{pipeline}')",
            who=who, outs=self._made(), offsets=self.offsets(ROW.base_offset, ROW.last_offset), group=ROW.group,
            pipeline=pipeline,
        )  # fmt: skip


WORDS = PipelineWording()
