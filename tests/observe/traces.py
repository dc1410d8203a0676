"""The spans and metrics that OpenTelemetry's SDK received, for tests to read."""

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pywheel.observe.opentelemetry import OpenTelemetry


class Traces:
    """A listener, and what it has told."""

    def __init__(self, processors=(), **options):
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.provider = TracerProvider()
        for processor in (SimpleSpanProcessor(self.exporter), *processors):
            self.provider.add_span_processor(processor)
        meters = MeterProvider([self.reader])
        self.listener = OpenTelemetry(tracer_provider=self.provider, meter_provider=meters, **options)
        self.tracer = self.provider.get_tracer("tests")

    def spans(self, name=None):
        """The spans that have ended, all or of a name."""
        return [span for span in self.exporter.get_finished_spans() if name in (None, span.name)]

    def span(self, name):
        [span] = self.spans(name)
        return span

    def points(self, name):
        """The data points of a metric."""
        found = self.reader.get_metrics_data()
        scopes = [scope for resource in found.resource_metrics for scope in resource.scope_metrics] if found else []
        metrics = [metric for scope in scopes for metric in scope.metrics if metric.name == name]
        return [point for metric in metrics for point in metric.data.data_points]
