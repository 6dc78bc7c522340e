"""An external grader: the output must be the answer, spelt backwards."""
import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    right = request["output"].strip() == request["task"]["answer"][::-1]
    print(json.dumps({"id": request["id"], "score": 1 if right else 0}), flush=True)
