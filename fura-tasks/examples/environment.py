"""An external environment: a counter that must reach the number in the task's answer."""
import json
import sys

for line in sys.stdin:
    message = json.loads(line)
    reply = {"id": message["id"]}
    if "reset" in message:
        goal, count = int(message["reset"]["task"]["answer"]), message["reset"]["seed"] % 3
    elif "act" in message:
        count += {"up": 1, "down": -1}.get(message["act"].strip(), 0)
    if "end" in message:
        reply["score"] = 1 if count == goal else 0
    else:
        reply.update(observation=f"Count: {count}", state_hash=str(count), done=count == goal)
    print(json.dumps(reply), flush=True)
