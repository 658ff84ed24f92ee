"""The ecosystem's import path for cases of a verifier."""

from nemo_gym.ecosystem.verifier_fixture import VerifierFixture as VerifierFixture
from nemo_gym.ecosystem.verifier_fixture import VerifierFixtureCase as VerifierFixtureCase
from nemo_gym.ecosystem.verifier_fixture import VerifierFixtureError as VerifierFixtureError
from nemo_gym.ecosystem.verifier_fixture import VerifierFixtureResult as VerifierFixtureResult
from nemo_gym.ecosystem.verifier_fixture import exercise_verifier_fixture as exercise_verifier_fixture
from nemo_gym.ecosystem.verifier_fixture import load_verifier_fixture as load_verifier_fixture
