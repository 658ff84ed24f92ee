"""Amounts of money in cents."""


def parse_amount(text: str) -> int:
    """Return the cents of an amount such as "12.5", "-3" or "1,204.07"."""
    sign = -1 if text.startswith("-") else 1
    whole, _, cents = text.removeprefix("-").replace(",", "").partition(".")
    return sign * (int(whole or "0") * 100 + int((cents + "00")[:2]))


def format_amount(cents: int) -> str:
    """Return an amount with two decimals and commas between thousands."""
    sign = "-" if cents < 0 else ""
    whole, rest = divmod(abs(cents), 100)
    return f"{sign}{whole:,}.{rest:02}"


def split_evenly(cents: int, parts: int) -> list[int]:
    """Divide an amount into parts that differ by at most a cent, the larger ones first."""
    share, rest = divmod(cents, parts)
    return [share + 1 if number < rest else share for number in range(parts)]
