//go:build !unix

package supervise

import (
	"os"
	"syscall"
)

func groupAttr() *syscall.SysProcAttr { return nil }

// signalGroup ends the first process: there are no groups here.
func signalGroup(leader *os.Process, _ bool) { _ = leader.Kill() }

// groupAlive is asked after the first process has ended.
func groupAlive(*os.Process) bool { return false }

func groupExit(state *os.ProcessState) Exit { return Exit{Code: state.ExitCode()} }
