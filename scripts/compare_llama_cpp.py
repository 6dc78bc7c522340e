"""The runs and the table of scripts/compare-llama-cpp.sh."""

import argparse
import json
import os
import statistics
import subprocess

PROMPT, GENERATE, BATCHED_PROMPT, BATCHED_GENERATE = 512, 64, 64, 32


def lines(command, env=None):
    """Standard output of a command, as the JSON objects in it."""
    out = subprocess.run(command, env={**os.environ, **(env or {})}, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in out.stdout.splitlines() if line.startswith("{")]


def llama(args, build, model, threads):
    """Rates of one run of llama.cpp's two programs, by workload."""
    tools, rates = os.path.join(args.llama, build, "bin"), {}
    single = [f"{tools}/llama-bench", "-m", model, "-p", PROMPT, "-n", GENERATE, "-t", threads, "-r", 1, "-o", "jsonl"]
    for row in lines([str(a) for a in single]):
        rates[f"pp{PROMPT}" if row["n_prompt"] else f"tg{GENERATE}"] = row["avg_ts"]
    if args.sequences:
        most = max(int(n) for n in args.sequences.split(","))
        context = most * (BATCHED_PROMPT + BATCHED_GENERATE)
        batched = [f"{tools}/llama-batched-bench", "-m", model, "-c", context, "-npp", BATCHED_PROMPT,
                   "-ntg", BATCHED_GENERATE, "-npl", args.sequences, "-t", threads, "-tb", threads,
                   "--output-format", "jsonl"]
        for row in lines([str(a) for a in batched]):
            rates[f"pp{BATCHED_PROMPT} x {row['pl']}"] = row["speed_pp"]
            rates[f"tg{BATCHED_GENERATE} x {row['pl']}"] = row["speed_tg"]
    return rates


def fura(args, build, model, threads):
    """Rates of one run of `fura bench`, by workload."""
    command = [args.fura, "bench", model, "--cache", args.packs, "--json", "--rounds", "1", "--threads", str(threads),
               "--sequences", args.sequences or "0"]
    (result,) = lines(command, {"FURA_CPU": "avx2"} if build == "avx2" else None)
    rates = {row["test"]: row["median_ts"] for row in result["tests"]}
    for row in result["batched"]:
        rates[f"pp{row['pp']} x {row['pl']}"] = row["speed_pp"]
        rates[f"tg{row['tg']} x {row['pl']}"] = row["speed_tg"]
    return rates


def table(runs):
    """Markdown: medians, and the median of each round's ratio."""
    print("| build | type | threads | workload | llama.cpp | fura | ratio | rounds |")
    print("|---|---|--:|---|--:|--:|--:|--:|")
    cells = {}
    for run in runs:
        for work, rate in run["llama"].items():
            key = (run["build"], run["type"], run["threads"], work)
            cells.setdefault(key, []).append((rate, run["fura"][work]))
    for (build, kind, threads, work), pairs in cells.items():
        ratio = statistics.median(f / l for l, f in pairs)
        medians = [statistics.median(p[i] for p in pairs) for i in range(2)]
        print(f"| {build} | {kind} | {threads} | {work} | {medians[0]:.0f} | {medians[1]:.0f} | {ratio:.2f} | {len(pairs)} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--llama", required=True)
    parser.add_argument("--fura", required=True)
    parser.add_argument("--packs", required=True)
    parser.add_argument("--model", action="append", required=True, metavar="TYPE=FILE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", default="1 2")
    parser.add_argument("--sequences", default="1,8,64")
    parser.add_argument("--builds", default="native avx2")
    parser.add_argument("--types", default="Q4_0 Q4_1")
    parser.add_argument("--save")
    parser.add_argument("--load", action="append", default=[])
    args = parser.parse_args()
    models = dict(m.split("=", 1) for m in args.model)
    runs = []
    for file in args.load:
        with open(file, encoding="utf-8") as f:
            runs += [json.loads(line) for line in f]
    for _ in range(args.rounds):
        for build in args.builds.split():
            for kind in args.types.split():
                for threads in map(int, args.threads.split()):
                    where = (args, build, models[kind], threads)
                    run = {"build": build, "type": kind, "threads": threads, "llama": llama(*where), "fura": fura(*where)}
                    runs.append(run)
                    if args.save:
                        with open(args.save, "a", encoding="utf-8") as f:
                            f.write(json.dumps(run) + "\n")
    table(runs)


if __name__ == "__main__":
    main()
