from nemo_gym.verify.task_rows import invalid_row


def test_the_error_names_the_field_and_the_remedy() -> None:
    error = invalid_row("options: missing", param="options")
    assert str(error) == "The task row cannot be graded: options: missing. Correct it in the dataset."
    assert (error.failure.code, error.failure.param) == ("invalid_row", "options")
