"""Records of requests that were sent and cannot be decoded: their worker died with them, or the decoder did, too often."""

from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING

from loadstone.bench.decoder import complete, failed_record, records_of, token_counter
from loadstone.bench.decoding import Decoding
from loadstone.bench.earlier import Earlier
from loadstone.bench.record_file import RecordFile
from loadstone.engine.balance import server_of
from loadstone.engine.exchange import End, Exchange
from loadstone.plan import Plan
from loadstone.records import CANCELLED, FAILED, ColumnWriter, Record

if TYPE_CHECKING:
    from loadstone.bench.measure import Measured

UNDECODED = "requests had been captured but not decoded"


def write_lost(folder: Path, decoding: Decoding, measured: "Measured") -> int:
    """A record for each request that was sent and is not in the columns, into the new column folder `folder` and the records file. Returns how many
    of them were captured. Raises OSError.

    What was captured is known by the spool, its times too. What its worker took along is known from the plan's order: the first that are missing.
    """
    job = decoding.job
    earlier = Earlier.of(decoding.folders, job.records, job.header)
    seen = earlier.columns
    plan, count_tokens, captured = Plan(Path(job.plan)), token_counter(job.tokenizer), 0
    with ColumnWriter(folder) as lost, RecordFile(job.records, job.header, begun=earlier.begun) as file:
        exchanges = decoding.undecoded() if decoding.given_up else iter(())
        for exchange in earlier.left(exchanges):
            if exchange.index in seen:  # into the columns it had come, and the decoder that put it there knew how to decode it
                for record, _ in records_of(iter((exchange,)), plan, job, count_tokens):
                    file.add(record)
                continue
            captured += 1
            _add(_undecoded(exchange, decoding.deaths[-1]), exchange.server, plan, decoding, earlier, lost, file)
        gone = f"the worker process died: {measured.lost_workers[0]}" if measured.lost_workers else "it left no trace in the spool"
        reason = "worker died" if measured.lost_workers else "decoder died"
        missing = (index for index in count() if index not in seen)
        for index in islice(missing, max(measured.sent - len(seen), 0)):
            conversation = plan.conversation(index % len(plan))
            server = server_of(index, conversation, len(job.targets))  # with --balance least-loaded a guess: who chose it took the choice along
            _add(Record(index=index, status=FAILED, reason=reason, error=gone), server, plan, decoding, earlier, lost, file)
    return captured


def note_of_lost(captured: int, folder: Path) -> str:
    """What the report says of `captured` requests that no decoder got to; their spool is in the run's folder."""
    return f"{captured} {UNDECODED}: they are counted as failed here, and `loadstone decode {folder}` tries again with what is kept there"


def _undecoded(exchange: Exchange, why: str) -> Record:
    record = failed_record(exchange, "decoder died", f"captured, but not decoded: the decoder process died: {why}")
    if exchange.end in (End.CANCELLED, End.NOT_SENT):
        record.status, record.reason, record.error = CANCELLED, "cancelled", "cancelled when the load was stopped"
    return record


def _add(record: Record, server: int, plan: Plan, decoding: Decoding, earlier: Earlier, lost: ColumnWriter, file: RecordFile) -> None:
    complete(record, plan, decoding.job, server)
    lost.add(record)
    if record.index not in earlier.lines:
        file.add(record)
    earlier.columns.add(record.index)
