"""Lines of plain text."""


def wrap(text: str, width: int) -> list[str]:
    """Break a text into lines of at most `width` characters. A longer word has a line of its own."""
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return lines


def shorten(text: str, width: int) -> str:
    """Return the text if it fits, otherwise its beginning with "..." at the end: `width` characters in total."""
    return text if len(text) <= width else text[: width - 3] + "..."


def common_words(text: str, count: int) -> list[str]:
    """Return the most frequent words in lower case; the alphabet decides between equally frequent ones."""
    words = text.lower().split()
    return sorted(set(words), key=lambda word: (-words.count(word), word))[:count]
