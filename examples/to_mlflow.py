"""Logs a sweep of vsweep to MLflow: a run for the sweep, and below it one for each measured run.

As the command of [on_finish], or by hand: python to_mlflow.py results/demo
Needs pyarrow and mlflow (or mlflow-skinny). MLFLOW_TRACKING_URI says where to, MLFLOW_EXPERIMENT_NAME under which name.
A run that is there already is not logged again, so a sweep that goes on adds to what it logged before.
"""

import json
import os
import sys
from pathlib import Path

# Of summary.parquet: columns before the parameters, and the one after them.
IDENTITY = ["point", "start", "run", "outcome", "validity", "codes", "cause"]
FIRST_AFTER_PARAMETERS = "simulated"


def measured_runs(directory):
    """The rows of summary.parquet, each as its name, tags, parameters and figures."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(directory / "summary.parquet")
    names = table.column_names
    parameters = names[: names.index(FIRST_AFTER_PARAMETERS)]
    for row in table.to_pylist():
        given = {name: value for name, value in row.items() if value is not None}
        tags = {name: str(given[name]) for name in IDENTITY if name in given}
        params = {name: given[name] for name in parameters if name in given and name not in IDENTITY}
        figures = {
            name: float(value)
            for name, value in given.items()
            if name not in parameters and isinstance(value, (int, float)) and not isinstance(value, bool)
        }
        yield "/".join(tags[name] for name in ("point", "start", "run") if name in tags), tags, params, figures


def winners(directory):
    """The server that answer.json names for each question, and how sure that is."""
    try:
        answer = json.loads((directory / "answer.json").read_text())
    except FileNotFoundError:
        return {}
    names = {config["id"]: config["name"] for config in answer["configs"]}
    won = [(question, question["winner"]) for question in answer["questions"] if question["winner"]]
    return {
        " ".join(filter(None, [question["question"], question["workload"]])): f"{names[winner['config']]} ({winner['probability']:.3f})"
        for question, winner in won
    }


def main():
    import mlflow

    directory = Path(sys.argv[1]).resolve()
    mlflow.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", "vsweep"))
    sweep = str(directory)
    query = f"tags.vsweep_directory = '{sweep}' and tags.vsweep_run = 'sweep'"
    before = mlflow.search_runs(filter_string=query, output_format="list")
    earlier = {"run_id": before[0].info.run_id} if before else {"run_name": directory.name}
    with mlflow.start_run(**earlier) as parent:
        mlflow.set_tags({"vsweep_directory": sweep, "vsweep_run": "sweep"})
        mlflow.set_tag("ending", os.environ.get("VSWEEP_ENDING", "by hand"))
        mlflow.set_tag("answer", json.dumps(winners(directory)))
        for name in ("answer.json", "report.html", "summary.parquet"):
            if (directory / name).exists():
                mlflow.log_artifact(str(directory / name))
        query = f"tags.mlflow.parentRunId = '{parent.info.run_id}'"
        logged = {run.data.tags.get("vsweep_run") for run in mlflow.search_runs(filter_string=query, output_format="list")}
        for name, tags, params, figures in measured_runs(directory):
            if name not in logged:
                with mlflow.start_run(run_name=name, nested=True):
                    mlflow.set_tags(tags | {"vsweep_run": name})
                    mlflow.log_params(params)
                    mlflow.log_metrics(figures)


if __name__ == "__main__":
    main()
