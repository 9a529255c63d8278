//go:build deps

// Package deps pins modules while the parts that use them are being written.
package deps

import (
	_ "github.com/alecthomas/kong"
	_ "github.com/docker/cli/cli/connhelper"
	_ "github.com/docker/docker/api/types/container"
	_ "github.com/docker/docker/api/types/image"
	_ "github.com/docker/docker/api/types/mount"
	_ "github.com/docker/docker/api/types/network"
	_ "github.com/docker/docker/client"
	_ "github.com/docker/docker/pkg/stdcopy"
	_ "github.com/docker/go-connections/nat"
	_ "github.com/docker/go-units"
	_ "github.com/google/jsonschema-go/jsonschema"
	_ "github.com/hashicorp/yamux"
	_ "github.com/openai/openai-go/v3"
	_ "github.com/pelletier/go-toml/v2"
	_ "github.com/stretchr/testify/require"
	_ "go.uber.org/goleak"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
)
