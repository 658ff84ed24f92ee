"""The ecosystem's import path for schemas of task rows."""

from nemo_gym.ecosystem.task_validator import TaskDataValidationReport as TaskDataValidationReport
from nemo_gym.ecosystem.task_validator import TaskDataValidator as TaskDataValidator
from nemo_gym.resources.task_schemas import load_task_data_schema as load_task_data_schema
from nemo_gym.resources.task_schemas import normalize_task_fields as normalize_task_fields
