// Telemetry prints the spans of a run as OpenTelemetry sees them: the agent, the
// calls of its model, and those of its tools. It is a module of its own, because
// OpenTelemetry's SDK and its exporters are no part of pygent. The model is
// scripted. Run it with
//
//	cd examples/telemetry && go run .
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/x/pygent"
	"github.com/x/pygent/otel"
	"github.com/x/pygent/pygenttest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	exporter, err := stdouttrace.New(stdouttrace.WithPrettyPrint())
	if err != nil {
		return err
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter))
	defer func() {
		if end := provider.Shutdown(context.WithoutCancel(ctx)); err == nil {
			err = end
		}
	}()

	agent, err := pygent.New(pygent.WithModel(model()), otel.Record(otel.Tracer(provider)))
	if err != nil {
		return err
	}
	defer agent.Close()
	_, err = agent.RunUntilStop(ctx, "Say hello.")
	return err
}

func model() pygent.Model {
	return pygenttest.NewScriptedModel(
		pygenttest.Call("bash", map[string]any{"cmd": "echo hello"}).WithModel("scripted").
			WithUsage(pygent.Usage{PromptTokens: 900, CompletionTokens: 20}),
		pygenttest.Call("stop", map[string]any{"summary": "It said hello."}))
}
