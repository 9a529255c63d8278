package pygent

import "slices"

// sibling describes how to make a runtime of the same kind and with the same
// limits, but with a temporary workspace of its own and no initial files. The
// environment may hold secrets, so it comes apart.
func (r *workspaceRuntime) sibling() (TaskRuntime, []string) {
	o := r.options
	c := ContainerConfig{Docker: DockerNever}
	if r.UseDocker() {
		c = ContainerConfig{
			Docker:       DockerRequired,
			Image:        o.image,
			Network:      o.network,
			AllowedHosts: slices.Concat(o.allowedHosts, o.hosts.kept()),
			NetworkLimit: o.networkLimit,
			Memory:       o.memory,
			CPUs:         o.cpus,
			Pids:         o.pids,
			User:         o.user,
			Capabilities: slices.Clone(o.capabilities),
			ReadOnly:     &o.readOnlyRoot,
			GPUs:         o.gpus,
			DockerHost:   o.dockerHost,
			SharedFiles:  o.sharedFiles,
			Mounts:       slices.Clone(o.mounts),
		}
	}
	local := LocalConfig{
		Protection: o.protection,
		Readable:   slices.Clone(o.readable),
		Writable:   slices.Clone(o.writable),
		Env:        slices.Clone(o.inherit),
	}
	return TaskRuntime{Kind: r.info.Kind, Container: c, Local: local}, slices.Clone(o.env)
}

// options are those of a runtime for a task. Only without a parent do the
// environment and the task's profile have a say in what it is; its workspace is
// its own in any case.
func (t TaskRuntime) options(env []string) []RuntimeOption {
	return slices.Concat(
		[]RuntimeOption{func(o *runtimeOptions) { o.configured = o.configured || t.Kind != "" }},
		t.Container.options(),
		t.Local.options(),
		[]RuntimeOption{WithEnv(env...), func(o *runtimeOptions) {
			o.workspace, o.initialFiles, o.publishPorts = "", nil, nil
			o.keepLeftovers = o.keepLeftovers || t.Kind != "" // its parent has swept, or was not to
		}},
	)
}
