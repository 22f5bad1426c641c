"""What all tests share: no key of the machine they run on reaches them, and text is as wide everywhere."""

import pytest


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests see no API key and no result format that the machine has set."""
    for name in ("OPENAI_API_KEY", "SAVE_TO_PYTORCH_BENCHMARK_FORMAT", "COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
