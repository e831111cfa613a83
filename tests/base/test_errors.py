"""What errors say."""

from consilience.base.errors import first_line, sentence_of


def test_errors_of_the_system_name_the_file_and_what_to_do():
    sentence = sentence_of(OSError(28, "No space left on device", "run/metrics.parquet"))
    assert sentence == "run/metrics.parquet: No space left on device. Finished rounds are saved; fix this and resume."


def test_a_long_message_is_cut():
    assert first_line(ValueError("x" * 400)) == "x" * 300
