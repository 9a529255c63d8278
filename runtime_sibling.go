package pygent

import (
	"slices"
)

// from notes what the runtime was made from, for those made like it.
func (r *workspaceRuntime) from(o *runtimeOptions) *workspaceRuntime {
	r.options = o
	return r
}

// sibling describes how to make a runtime of the same kind and with the same
// limits, but with a temporary workspace of its own and no initial files. The
// environment may hold secrets, so it comes apart.
func (r *workspaceRuntime) sibling() (TaskRuntime, []string) {
	o := r.options
	docker := r.UseDocker()
	c := ContainerConfig{UseDocker: &docker}
	if docker {
		c = ContainerConfig{
			UseDocker:    &docker,
			Image:        o.image,
			Network:      o.network,
			Memory:       o.memory,
			CPUs:         o.cpus,
			Pids:         o.pids,
			User:         o.user,
			Capabilities: slices.Clone(o.capabilities),
			ReadOnly:     &o.readOnlyRoot,
			GPUs:         o.gpus,
			DockerHost:   o.dockerHost,
		}
		for _, m := range o.mounts {
			c.Mounts = append(c.Mounts, MountConfig(m))
		}
	}
	return TaskRuntime{Kind: r.info.Kind, Container: c}, slices.Clone(o.env)
}
