"""Orders: lists of a customer, an item and a number of pieces."""

from .stock import after_moves


def served(stock: dict[str, int], orders: list[list[object]]) -> list[str]:
    """Return the customers whose orders can be served in full, in order. The others take nothing."""
    customers = []
    for customer, item, pieces in orders:
        if stock.get(str(item), 0) >= int(str(pieces)):
            stock = after_moves(stock, [[item, -int(str(pieces))]])
            customers.append(str(customer))
    return customers


def best_sellers(orders: list[list[object]], count: int) -> list[str]:
    """Return the items that were ordered most, by pieces; the alphabet decides between equal ones."""
    ordered = after_moves({}, [[item, pieces] for _, item, pieces in orders])
    return sorted(ordered, key=lambda item: (-ordered[item], item))[:count]
