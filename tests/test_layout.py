"""The package can be imported, and its public names are there."""

import loadstone


def test_public_names() -> None:
    assert set(loadstone.__all__) >= {"RunConfig", "run", "Result"}
    assert loadstone.RunConfig().num_prompts == 1000
