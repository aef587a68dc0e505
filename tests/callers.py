"""Run by test_tasks in processes of its own: many request_compaction calls on one branch at once.

``python -m tests.callers MESSAGE_ID CALLS THREADS`` prints how many of the calls opened a run.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import django


def main(message_id: int, calls: int, threads: int) -> None:
    django.setup()
    from django.db import connections

    from compaction_app import chat
    from compaction_app.models import ChatMessage

    barrier = Barrier(threads)

    def opened(_):
        try:
            tip = ChatMessage.objects.get(pk=message_id)
            barrier.wait()
            return sum(chat.request_compaction(tip) is not None for _ in range(calls // threads))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(threads) as pool:
        sys.stdout.write(f"opened {sum(pool.map(opened, range(threads)))}\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
