"""A watch with its state, as a loop keeps both."""


class Watched:
    """Each method gives the alarms that a report raises."""

    def __init__(self, watch):
        self.watch, self.state = watch, watch.init()

    def after_step(self, *reported):
        self.state, raised = self.watch.after_step(self.state, *reported)
        return raised

    def after_statistics(self, *reported):
        self.state, raised = self.watch.after_statistics(self.state, *reported)
        return raised

    def after_validation(self, *reported):
        self.state, raised = self.watch.after_validation(self.state, *reported)
        return raised
