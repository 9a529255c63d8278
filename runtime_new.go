package pygent

import "context"

// NewRuntime makes a runtime as [WithDocker] says: in a Docker container, or
// on this machine. By default it is Docker if an engine answers, and else this
// machine; that is told by a [RuntimeFallback] event, in the log, and in
// [RuntimeInfo]. See [NewDockerRuntime] and [NewLocalRuntime] for both.
func NewRuntime(ctx context.Context, opts ...RuntimeOption) (Runtime, error) {
	o, err := newRuntimeOptions(opts)
	if err != nil {
		return nil, err
	}
	if o.docker == DockerNever {
		return newLocalRuntime(ctx, o, "")
	}
	engine, err := connectEngine(ctx, o.dockerHost)
	switch {
	case err == nil:
		return newDockerRuntime(ctx, o, engine)
	case o.docker == DockerRequired || ctx.Err() != nil:
		return nil, err
	}
	r, localErr := newLocalRuntime(ctx, o, err.Error())
	if localErr != nil {
		return nil, localErr
	}
	o.events(RuntimeEvent{Kind: RuntimeFallback, Text: "commands run on this machine, with your rights: " + err.Error()})
	return r, nil
}
