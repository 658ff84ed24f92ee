from nemo_gym.verify.task_rows import invalid_row


def test_the_error_names_the_field_and_the_remedy() -> None:
    error = invalid_row("options: missing", param="options")
    assert str(error) == "The task row cannot be graded: options: missing. Correct it in the dataset."
    assert (error.failure.code, error.failure.param) == ("invalid_row", "options")


def test_a_problem_that_is_a_sentence_ends_with_one_stop() -> None:
    for problem in ("`answer` is no date", "`answer` is no date.", "`answer` is no date. "):
        assert str(invalid_row(problem, remedy="Write a date.")) == (
            "The task row cannot be graded: `answer` is no date. Write a date."
        )
