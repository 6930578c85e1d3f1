"""The cluster examples are valid scripts and configurations."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "cluster"


def shell(script: str, tmp_path: Path) -> None:
    """Check a script for mistakes, with shellcheck if it is installed."""
    file = tmp_path / "script.sh"
    file.write_text(script)
    subprocess.run(["bash", "-n", file], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", file], check=True)


def documents(name: str) -> list[Any]:
    yaml = pytest.importorskip("yaml")
    return list(yaml.safe_load_all((EXAMPLES / name).read_text()))


def test_slurm_submits_an_array_and_a_merge(tmp_path: Path) -> None:
    shell((EXAMPLES / "slurm.sh").read_text(), tmp_path)
    # Stand-in for Slurm: runs the tasks one after the other and prints a job number.
    log = tmp_path / "log"
    stub = tmp_path / "sbatch"
    stub.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {log}\nfor last; do :; done\n')
    with stub.open("a") as file:
        file.write('case "$*" in *--array*) for SLURM_ARRAY_TASK_ID in 0 1; do eval "$last"; done >&2;; ')
        file.write('*) eval "$last" >&2;; esac\necho 42\n')
    program = tmp_path / "anabranch"
    calls = tmp_path / "calls"
    program.write_text(f'#!/bin/sh\nprintf "<%s>" "$@" >> {calls}\necho >> {calls}\n')
    for one in (stub, program):
        one.chmod(0o755)
    out = f"{tmp_path}/out put"
    more = {
        "OUT": out,
        "SHARDS": "2",
        "CPUS": "3",
        "WHAT": "a plan.toml",
        "ANABRANCH": "anabranch",
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
    }
    subprocess.run([EXAMPLES / "slurm.sh", "--variants", "a,b"], check=True, env=os.environ | more)
    shard = (
        "<lab><run><a plan.toml><--variants><a,b><--threads><3><--shard><{0}/2><--out><"
        + out
        + "/shards/{0}>"
    )
    merge = f"<lab><merge><{out}/shards/0><{out}/shards/1><--out><{out}>"
    assert calls.read_text().splitlines() == [shard.format(0), shard.format(1), merge]
    assert "--array 0-1" in log.read_text() and "afterok:42" in log.read_text()


def test_kubernetes_jobs_are_whole(tmp_path: Path) -> None:
    claim, sweep, merge = documents("kubernetes.yaml")
    spec = sweep["spec"]
    assert spec["completionMode"] == "Indexed"
    for job in (sweep, merge):
        template = job["spec"]["template"]["spec"]
        (volume,) = template["volumes"]
        assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        (container,) = template["containers"]
        assert container["command"] == ["/bin/sh", "-euc"]
        shell("#!/bin/sh\n" + container["args"][0], tmp_path)
    (container,) = spec["template"]["spec"]["containers"]
    assert f'"$JOB_COMPLETION_INDEX/{spec["completions"]}"' in container["args"][0]
    (rule,) = [rule for rule in spec["podFailurePolicy"]["rules"] if "onExitCodes" in rule]
    assert rule["onExitCodes"]["containerName"] == container["name"]


def test_ray_starts_head_and_workers(tmp_path: Path) -> None:
    (cluster,) = documents("ray.yaml")
    assert len(cluster["provider"]["worker_ips"]) == cluster["max_workers"]
    # Ray's launcher sets RAY_HEAD_IP.
    commands = (
        cluster["setup_commands"] + cluster["head_start_ray_commands"] + cluster["worker_start_ray_commands"]
    )
    shell("#!/bin/bash\nexport RAY_HEAD_IP=192.0.2.1\n" + "\n".join(commands), tmp_path)
    sources = [Path(__file__).parents[2] / source for source in cluster["file_mounts"].values()]
    assert (sources[1] / "pyproject.toml").is_file()


def test_condor_queues_as_many_jobs_as_there_are_shards() -> None:
    lines = (EXAMPLES / "htcondor.sub").read_text().splitlines()
    settings = {}
    for line in lines:
        if found := re.fullmatch(r"([a-z_]+)\s*=\s*(.*)", line):
            settings[found[1]] = found[2]
    assert lines[-1] == "queue $(shards)"
    assert "--shard $(Process)/$(shards)" in settings["arguments"]
    assert settings["arguments"].endswith(f'--out {settings["transfer_output_files"]}"')
    used = set(re.findall(r"\$\((\w+)\)", "\n".join(line for line in lines if not line.startswith("#"))))
    assert used - settings.keys() == {"Process"}
