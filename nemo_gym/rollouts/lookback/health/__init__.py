"""Signs of broken data and of reward hacking in the rows of a run.

A rule has a name, a severity and words, and is a pure function: of one row, or of the attempts of a whole run, of which
only numbers are kept. So a file larger than memory can be checked, and any reader of rows can use the same rules.

- `rows`: a row as the rules read it
- `attempts`: the numbers of all rows, 56 bytes each
- `row_rules`, `run_rules`: the rules of single rows, and of groups and whole runs
- `rules`: the list of all rules
- `checking`: runs the rules over a file
"""

from nemo_gym.rollouts.lookback.health.checking import HealthCheck as HealthCheck
from nemo_gym.rollouts.lookback.health.checking import HealthReport as HealthReport
from nemo_gym.rollouts.lookback.health.checking import check_health as check_health
from nemo_gym.rollouts.lookback.health.rules import RULES as RULES
from nemo_gym.rollouts.lookback.health.rules import Finding as Finding
from nemo_gym.rollouts.lookback.health.rules import HealthRule as HealthRule
from nemo_gym.rollouts.lookback.health.rules import Severity as Severity
