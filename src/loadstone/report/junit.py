"""Thresholds as JUnit XML, which CI systems show: one test case a threshold; a miss is a failure, too few samples is skipped."""

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from loadstone.errors import UsageError
from loadstone.metrics.summary import Judgement
from loadstone.metrics.thresholds import FAIL, TOO_FEW
from loadstone.report.thresholds import found


def write_junit(path: str, judgements: Sequence[Judgement], name: str, seconds: float) -> None:
    """Write the file. `name`: of the suite; `seconds`: how long the run took. Raises UsageError when it cannot be written."""
    verdicts = [each.verdict for each in judgements]
    counts = {"tests": len(verdicts), "failures": verdicts.count(FAIL), "errors": 0, "skipped": verdicts.count(TOO_FEW)}
    suite = ElementTree.Element("testsuite", {"name": name, **{key: str(count) for key, count in counts.items()}, "time": f"{seconds:.3f}"})
    for each in judgements:
        case = ElementTree.SubElement(suite, "testcase", {"classname": name, "name": each.threshold, "time": "0"})
        if each.verdict == FAIL:
            ElementTree.SubElement(case, "failure", {"message": f"{found(each)}: {each.threshold} was missed"})
        elif each.verdict == TOO_FEW:
            ElementTree.SubElement(case, "skipped", {"message": f"{found(each)}; {each.why}"})
    text = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(text + b"\n")
    except OSError as error:
        raise UsageError(f"cannot write --junit {path}: {error.strerror or error}") from None
