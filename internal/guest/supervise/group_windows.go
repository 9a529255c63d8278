package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// No process can leave a job object that does not allow it.
const groupsAreSure = true

// group is the processes of a command: a job object. This process has the only
// handle, so the system ends the job when this process ends for any reason.
type group struct{ job windows.Handle }

// startGroup starts a command inside a job. The command is suspended until it
// is in the job, so that it cannot start a process outside.
func startGroup(cmd *exec.Cmd) (_ *group, err error) {
	job, err := newJob()
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, windows.CloseHandle(job))
	}
	if err = enter(job, cmd.Process); err == nil {
		err = resume(uint32(cmd.Process.Pid))
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, errors.Join(fmt.Errorf("put the command in a job: %w", err), windows.CloseHandle(job))
	}
	return &group{job: job}, nil
}

// newJob makes a job that ends when its last handle is closed.
func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, os.NewSyscallError("CreateJobObject", err)
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		return 0, errors.Join(os.NewSyscallError("SetInformationJobObject", err), windows.CloseHandle(job))
	}
	return job, nil
}

// enter puts a process in a job.
func enter(job windows.Handle, p *os.Process) error {
	var entered error
	err := p.WithHandle(func(handle uintptr) {
		entered = os.NewSyscallError("AssignProcessToJobObject", windows.AssignProcessToJobObject(job, windows.Handle(handle)))
	})
	return errors.Join(err, entered)
}

// resume continues a process that was started suspended. Its only thread must
// be looked up, because package os closes the thread's handle.
func resume(pid uint32) error {
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return os.NewSyscallError("CreateToolhelp32Snapshot", err)
	}
	defer windows.CloseHandle(snapshot)
	entry := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(snapshot, &entry); err == nil; err = windows.Thread32Next(snapshot, &entry) {
		if entry.OwnerProcessID == pid {
			return resumeThread(entry.ThreadID)
		}
	}
	return os.NewSyscallError("Thread32Next", err)
}

func resumeThread(id uint32) error {
	thread, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, id)
	if err != nil {
		return os.NewSyscallError("OpenThread", err)
	}
	defer windows.CloseHandle(thread)
	_, err = windows.ResumeThread(thread)
	return os.NewSyscallError("ResumeThread", err)
}

// terminate does nothing: a job cannot be asked to end. Its processes may still
// end by themselves during the grace.
func (g *group) terminate() {}

// killedExit is the exit status of killed processes. It is the one that a shell
// reports elsewhere: 128 plus the number of the signal.
const killedExit = 128 + 9

// kill ends every process of the job.
func (g *group) kill() { _ = windows.TerminateJobObject(g.job, killedExit) }

func (g *group) alive() bool {
	_, count := g.procs(0)
	return count > 0
}

// jobProcesses is JOBOBJECT_BASIC_PROCESS_ID_LIST with room for a limited
// number of processes.
type jobProcesses struct {
	assigned uint32
	listed   uint32
	ids      [128]uintptr
}

// procs returns at most limit processes of the job, and the number of all.
func (g *group) procs(limit int) ([]Proc, int) {
	var list jobProcesses
	err := windows.QueryInformationJobObject(g.job, windows.JobObjectBasicProcessIdList,
		uintptr(unsafe.Pointer(&list)), uint32(unsafe.Sizeof(list)), nil)
	if err != nil && !errors.Is(err, windows.ERROR_MORE_DATA) {
		return nil, 0
	}
	var procs []Proc
	for _, id := range list.ids[:min(int(list.listed), limit, len(list.ids))] {
		procs = append(procs, Proc{PID: int(id), Name: processName(uint32(id))})
	}
	return procs, int(list.assigned)
}

// processName returns the name of a process's program, or "" if it is unknown.
func processName(pid uint32) string {
	process, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, pid)
	if err != nil {
		return ""
	}
	defer windows.CloseHandle(process)
	var buf [windows.MAX_PATH]uint16
	size := uint32(len(buf))
	if windows.QueryFullProcessImageName(process, 0, &buf[0], &size) != nil {
		return ""
	}
	return filepath.Base(windows.UTF16ToString(buf[:size]))
}

func (g *group) close() { _ = windows.CloseHandle(g.job) }

func groupExit(state *os.ProcessState) Exit { return Exit{Code: state.ExitCode()} }
