"""A watch with its state, as a loop keeps both."""


class Watched:
    """Each method gives the alarms that a report raises."""

    def __init__(self, watch):
        self.watch, self.state = watch, watch.init()

    def __getattr__(self, name):
        def report(*reported):
            self.state, raised = getattr(self.watch, name)(self.state, *reported)
            return raised

        return report
