"""The sandbox provider `apptainer`: instances of apptainer, which needs neither a daemon nor root."""

from nemo_gym.sandbox.providers.apptainer.options import ApptainerCreateConfig as ApptainerCreateConfig
from nemo_gym.sandbox.providers.apptainer.options import ApptainerExecConfig as ApptainerExecConfig
from nemo_gym.sandbox.providers.apptainer.options import ApptainerProbeConfig as ApptainerProbeConfig
from nemo_gym.sandbox.providers.apptainer.provider import ApptainerProvider as ApptainerProvider
