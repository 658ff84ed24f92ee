from random import Random

from nemo_gym.mock_engine._lazy_random import LazyRandom


def test_a_pending_seed_gives_the_draws_of_an_early_one() -> None:
    late = LazyRandom()
    for seed in (1, 2, 1):
        early = Random(seed)
        late.seed_lazily(seed)
        assert late.choice(range(1_000)) == early.choice(range(1_000))
        assert late.random() == early.random()
        assert late.uniform(1, 3) == early.uniform(1, 3)
