"""`python -m nemo_gym` is `gym`."""

from nemo_gym.cli import main

if __name__ == "__main__":
    main()
