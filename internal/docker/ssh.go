package docker

import (
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/docker/cli/cli/connhelper"
	"github.com/docker/cli/cli/connhelper/ssh"

	"github.com/x/pygent/internal/toolchain"
)

// sshHelper returns what connects to an engine behind ssh, as the docker command
// does, or nil for another address. Unlike that it runs no ssh that lies in one
// of the owned directories, which commands can write.
func sshHelper(host string, owned []string) (*connhelper.ConnectionHelper, error) {
	at, err := url.Parse(host)
	if err != nil || at.Scheme != "ssh" {
		return nil, err
	}
	spec, err := ssh.NewSpec(at)
	if err != nil {
		return nil, err
	}
	program, err := toolchain.Program("ssh", os.Getenv("PATH"), owned...)
	if err != nil {
		return nil, err
	}
	remote := []string{"docker", "system", "dial-stdio"}
	if strings.Trim(spec.Path, "/") != "" {
		remote = slices.Insert(remote, 1, "--host=unix://"+spec.Path)
	}
	args, err := spec.Command([]string{"-o ConnectTimeout=30", "-T"}, remote...)
	if err != nil {
		return nil, err
	}
	return connhelper.GetCommandConnectionHelper(program, args...)
}
