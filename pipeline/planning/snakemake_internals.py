"""All that the workflow uses of Snakemake beside what its documentation describes.

A test lists these parts, and holds that no other file uses one (`test_snakemake_internals.py`).
"""

import argparse
import functools
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pike_mixing.errors import InputError
from pipeline.planning import planner, slurm_executor, workflow_profile


class SnakemakeRequest:
    """What a user asked Snakemake for: on the command line, and in the workflow_profile."""

    def __init__(self, workflow: Any) -> None:
        """Reads files, options and resources; the rest is known when Snakemake looks for jobs.

        Raises:
            InputError: an option, or a resource of the profile, that cannot be.
        """
        if any(word.startswith("--generate-unit-tests") for word in sys.argv):
            raise InputError(
                "--generate-unit-tests copies the files that rules declare: here the manifests of "
                "folders, without what they list, so that such tests fail; `make test` tests the "
                "rules"
            )
        self._workflow = workflow
        # `config` has files and options in one, and was read as YAML 1.1. We read them as YAML 1.2,
        # and record with the results what the options were.
        given = workflow.config_settings
        self.files = [Path(os.path.relpath(file)) for file in given.configfiles]
        self.options: Mapping[str, Any] = planner.read_config_options(
            given.config, given.config_args
        )
        # Of each rule, before there are jobs: memory and time of all follow from the devices.
        resources = workflow.resource_settings
        chosen = resources.overwrite_resources or {}
        image = os.environ.get("PIKE_IMAGE")
        for path in _profile_files(sys.argv[1:]):
            workflow_profile.refuse_misread_profile(path)
        self.profile = workflow_profile.read_profile(
            workflow_profile.resources_with_image_python(image, chosen) if image else chosen,
            resources.default_resources or {},
            resources.overwrite_threads or {},
        )
        self.is_local: bool = resources.nodes is None
        """Whether jobs run on this machine."""

    def is_job_process(self) -> bool:
        """Whether this process is one that an executor has started for a job."""
        return "--target-jobs" in sys.argv

    @functools.cached_property
    def has_settings_trigger(self) -> bool:
        """Whether other settings are a reason to run; not with `--rerun-triggers mtime`."""
        return "PARAMS" in {trigger.name for trigger in self._dag_settings.rerun_triggers}

    def is_leaving_out_jobs(self) -> bool:
        """Whether `--until`, `--omit-from` or `--batch` leave jobs out."""
        asked = self._dag_settings
        return bool(asked.until or asked.omit_from or asked.batch)

    def forced_rules_and_files(self) -> set[str] | None:
        """Rules and files that are to be made whatever is there; None: all.

        Snakemake runs these jobs by itself. That a forced training begins anew is ours, and that
        what only stands on it, whose inputs are `ancient`, follows.
        """
        asked = self._dag_settings
        targets = (*asked.targets, *asked.until) if asked.forcetargets else ()
        return None if asked.forceall else {*asked.forcerun, *targets}

    @property
    def _dag_settings(self) -> Any:
        return self._workflow.dag_settings


def _profile_files(words: Sequence[str]) -> list[Path]:
    """Files of the profiles that a command line, or the environment, names by their paths."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--profile", action="append", default=[])
    parser.add_argument("--workflow-profile", default="none")
    named = parser.parse_known_args(words)[0]
    places = named.profile or [os.environ.get("SNAKEMAKE_PROFILE", "none")]
    found = [
        path
        for place in map(Path, (*places, named.workflow_profile))
        for path in (place, *place.glob("profile*.yaml"), *place.glob("config*.yaml"))
    ]
    return [path for path in found if path.is_file()]


def remove_job_rate_limit(workflow: Any) -> None:
    """Lets jobs of this machine start one after another: no queue is to be spared.

    With a limit, every finished job has Snakemake look for new ones each second until the end;
    after 240 jobs that takes a third of a core. A limit over a longer time would have Snakemake
    wait that long at its end.
    """
    workflow.scheduler.job_rate_limiter = None


def mend_slurm_plugin(check_before_submitting: Callable[[], None]) -> None:
    """Has the Slurm plugin, where it is installed, take our executor for its own (`slurm`).

    Args:
        check_before_submitting: Raises an InputError where jobs must not be submitted.
    """
    registry: Any = importlib.import_module(
        "snakemake_interface_executor_plugins.registry"
    ).ExecutorPluginRegistry()
    if registry.is_installed("slurm"):
        plugin = registry.get_plugin("slurm")
        plugin.executor = slurm_executor.patch_slurm_executor(
            plugin.executor, check_before_submitting
        )
