import pytest

from nemo_gym.failures import InputError, VerifierError
from nemo_gym.processes.workers import WorkerPool
from nemo_gym.verify.patterns import last_capture


@pytest.mark.parametrize(
    ("patterns", "text", "captured"),
    [
        (["answer is ([a-z])"], "The ANSWER IS b. No: the answer is C.", "C"),
        (["(?:pick|choose) ([A-D])|option ([A-D])"], "pick A, option B", "B"),
        (["[A-D]$"], "so B", "B"),
        (["nothing", "so ([A-D])"], "so B", "B"),
        (["first ([A-D])", "so ([A-D])"], "so B first C", "C"),
        (["nothing"], "so B", None),
        ([], "so B", None),
    ],
)
def test_the_last_match_of_the_first_pattern_that_occurs_counts(
    patterns: list[str], text: str, captured: str | None
) -> None:
    assert last_capture(patterns, text) == captured


def test_an_invalid_pattern_is_an_input_error_that_names_it() -> None:
    with pytest.raises(InputError, match=r"'\(\[A-D' of the task row is invalid"):
        last_capture(["([A-D"], "B")


async def test_catastrophic_backtracking_ends_at_the_deadline() -> None:
    pool = WorkerPool(1)
    with pytest.raises(VerifierError) as caught:
        await pool.run(last_capture, ["(a+)+$"], "a" * 60 + "b", timeout_s=0.3)
    assert caught.value.failure.code == "verifier_timeout"
    await pool.close()
