"""Entries of accounts: a list of an account's name and an amount, such as ["rent", "-850.00"]."""

from .money import format_amount, parse_amount


def balances(entries: list[list[str]]) -> dict[str, str]:
    """Return the balance of each account, by name."""
    totals: dict[str, int] = {}
    for account, amount in entries:
        totals[account] = totals.get(account, 0) + parse_amount(amount)
    return {account: format_amount(total) for account, total in sorted(totals.items())}


def first_overdraft(entries: list[list[str]], limit: str) -> int:
    """Return the index of the first entry after which all accounts together are below `limit`; -1 if none is."""
    total, lowest = 0, parse_amount(limit)
    for index, (_, amount) in enumerate(entries):
        total += parse_amount(amount)
        if total < lowest:
            return index
    return -1
