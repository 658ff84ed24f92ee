"""The sandbox provider `rootless`: images of Debian on this machine, without root and without a container engine.

provider     creates sandboxes, runs their commands, keeps their files as a layer
launch       the command line of a sandbox: a user namespace, an overlay, bubblewrap
supervisor   the program that runs commands inside of it
store        images, layers and sandboxes on the disk
dockerfile   the lines of a Dockerfile
debian       the base system, installed once
build        images made of a Dockerfile, line by line
"""

from nemo_gym.sandbox.providers.rootless.provider import RootlessProvider as RootlessProvider
