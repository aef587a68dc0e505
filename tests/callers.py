"""Run by test_tasks in processes of its own: many request_compaction calls on one branch at once.

``python -m tests.callers MESSAGE_ID CALLS THREADS`` prints how many of the calls opened a run.
"""

import sys
import threading

import django


def main(message_id: int, calls: int, threads: int) -> int:
    django.setup()
    from django.db import connections

    from compaction_app import chat
    from compaction_app.models import ChatMessage

    opened, lock, barrier = [], threading.Lock(), threading.Barrier(threads)

    def call():
        try:
            tip = ChatMessage.objects.get(pk=message_id)
            barrier.wait()
            for _ in range(calls // threads):
                run = chat.request_compaction(tip)
                if run is not None:
                    with lock:
                        opened.append(run.pk)
        finally:
            connections.close_all()

    workers = [threading.Thread(target=call) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sys.stdout.write(f"opened {len(opened)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:4])))
