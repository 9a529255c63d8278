// Package wire is the protocol between the host and the guest. Requests and
// replies are small frames on the streams of one yamux session.
//
// The host opens a stream for every request. The guest opens none. Host and
// guest are built from the same source, so a different version is an error, and
// nothing is negotiated. Each side treats the other as hostile: every length
// has a limit, and decoding never panics.
package wire

import (
	"io/fs"
	"time"
)

// Version is the version of the protocol. It must be changed with every change
// of a message.
const Version = 12

// Limits of messages.
const (
	MaxScript = 16 << 20 // bytes of a script
	MaxEnv    = 1 << 20  // bytes of one variable
	MaxKept   = 4 << 20  // bytes of output kept for the reply, each of head and tail
	MaxReply  = 9 << 20  // bytes of an answer
	MaxPath   = 4096     // bytes of a path
	MaxProcs  = 64       // processes named in a reply
	MaxRead   = 1 << 20  // bytes of a job's output in one reply
	MaxStderr = 32 << 10 // bytes of a process's stderr that are kept
	MaxLive   = 4 << 10  // bytes of a running command's output in one Chunk frame
	MaxList   = 100_000  // entries of a directory in one reply
	maxVars   = 4096     // variables
	maxText   = 4096     // bytes of an error's text
	maxName   = 256      // bytes of a name
	maxJobs   = 4096     // jobs in one reply
	maxDirs   = 16       // candidates for a directory
	maxID     = 64       // bytes of a job's id
)

// Empty is a message without fields.
type Empty struct{}

// Fields implements [Message].
func (*Empty) Fields(*Codec) {}

// Hello is the first request of a session.
type Hello struct {
	Version   int
	Workspace string        // directory that file requests are confined to and commands start in
	SpillDirs []string      // where the guest may keep long outputs, in order of preference
	Env       []string      // added to the environment of every command
	Nonce     string        // path of a file in the workspace, by which the host learns whether it shares the workspace
	Own       bool          // give what file requests make to the owner of the workspace
	Owner     Owner         // the owner as an earlier guest reported it; commands may have changed it since
	HostOwner HostOwner     // the owner as the host knows it; takes precedence over Owner
	Silence   time.Duration // the guest exits when it has heard nothing for so long; 0 means never
}

// Fields implements [Message].
func (m *Hello) Fields(c *Codec) {
	c.Small(&m.Version)
	c.String(&m.Workspace, MaxPath)
	c.Strings(&m.SpillDirs, maxDirs, MaxPath)
	c.Strings(&m.Env, maxVars, MaxEnv)
	c.String(&m.Nonce, MaxPath)
	c.Bool(&m.Own)
	m.Owner.fields(c)
	m.HostOwner.fields(c)
	c.Duration(&m.Silence)
}

// Owner is the owner of a file.
type Owner struct {
	Known    bool
	UID, GID int64
}

func (o *Owner) fields(c *Codec) {
	c.Bool(&o.Known)
	c.Int(&o.UID)
	c.Int(&o.GID)
}

// HostOwner is the owner of a directory of the host, in the user ids of the
// host. It is meaningful to a guest that sees the same directory under the same
// kernel.
type HostOwner struct {
	Owner
	Sure     bool   // the host saw this owner when it looked at the directory
	Dev, Ino int64  // of the directory
	Boot     string // identifies the boot of the kernel
	// Since is the moment before which no container had the directory, in nanoseconds of
	// the host's clock. What has not changed since keeps its owner. 0 is before all.
	Since int64
}

func (o *HostOwner) fields(c *Codec) {
	o.Owner.fields(c)
	c.Bool(&o.Sure)
	c.Int(&o.Dev)
	c.Int(&o.Ino)
	c.String(&o.Boot, maxName)
	c.Int(&o.Since)
}

// Welcome answers a [Hello].
type Welcome struct {
	Version    int
	Shell      string // path of the shell that runs commands
	OS, Arch   string // as Go names them
	Boot       string // identifies the boot of the kernel; empty if that is unknown
	UID, GID   int
	Init       bool   // the guest is PID 1 of its namespace
	Supervised bool   // no descendant of a command can escape
	Spill      string // directory for long outputs; empty if there is none
	SpillNote  string // why there is no such directory
	NonceOK    bool   // the file named by Hello.Nonce exists
	Nonce      string // its content
	Setid      string // what happens to setuid and setgid bits that commands set; empty if they stay
	SetidNote  string // why they stay
	Owner      Owner  // of the workspace
	HostOwner  bool   // Owner was taken from Hello.HostOwner
}

// Fields implements [Message].
func (m *Welcome) Fields(c *Codec) {
	c.Small(&m.Version)
	c.String(&m.Shell, MaxPath)
	c.String(&m.OS, maxName)
	c.String(&m.Arch, maxName)
	c.String(&m.Boot, maxName)
	c.Small(&m.UID)
	c.Small(&m.GID)
	c.Bool(&m.Init)
	c.Bool(&m.Supervised)
	c.String(&m.Spill, MaxPath)
	c.String(&m.SpillNote, maxText)
	c.Bool(&m.NonceOK)
	c.String(&m.Nonce, maxName)
	c.String(&m.Setid, maxName)
	c.String(&m.SetidNote, maxText)
	m.Owner.fields(c)
	c.Bool(&m.HostOwner)
}

// LiveEvery is the shortest time between two [Chunk] frames of a command. The last
// one may come earlier.
const LiveEvery = 125 * time.Millisecond

// Run starts a command. If it runs in the foreground, [Chunk] frames may
// follow, and a [Result] ends it. If it runs in the background, the guest
// answers at once with a [Job].
type Run struct {
	Script     []byte
	Dir        string   // relative to the workspace
	Env        []string // added to the session's environment
	Timeout    time.Duration
	Grace      time.Duration // between TERM and KILL
	Head, Tail int           // bytes of output to keep
	Live       bool          // send Chunk frames, at most one for each LiveEvery
	Background bool
	GoOn       bool  // at the time limit, go on as a job instead of ending
	JobsAfter  int64 // the command's job, if it becomes one, gets a higher number than this as its id
}

// Fields implements [Message].
func (m *Run) Fields(c *Codec) {
	c.Bytes(&m.Script, MaxScript)
	c.String(&m.Dir, MaxPath)
	c.Strings(&m.Env, maxVars, MaxEnv)
	c.Duration(&m.Timeout)
	c.Duration(&m.Grace)
	c.Small(&m.Head)
	c.Small(&m.Tail)
	c.Bool(&m.Live)
	c.Bool(&m.Background)
	c.Bool(&m.GoOn)
	c.Int(&m.JobsAfter)
}

// Chunk is a piece of a running command's output.
type Chunk struct {
	Offset int64 // the position of Data in the whole output
	Data   []byte
}

// Fields implements [Message].
func (m *Chunk) Fields(c *Codec) {
	c.Int(&m.Offset)
	c.Bytes(&m.Data, MaxRead)
}

// Proc is a process.
type Proc struct {
	PID  int
	Name string
}

func (p *Proc) fields(c *Codec) {
	c.Small(&p.PID)
	c.String(&p.Name, maxName)
}

// Result is the outcome of a command.
type Result struct {
	ExitCode  int // the shell's status; 128+n when signal n ended it; -1 when unknown
	Signal    int
	TimedOut  bool
	Cancelled bool
	Head      []byte
	Tail      []byte
	Total     int64  // bytes of output in all
	Gone      int64  // bytes between Head and Tail that were left out because others overwrote them on their line
	Spill     string // file with the whole output, up to SpillSize bytes
	SpillSize int64
	Duration  time.Duration
	GoesOn    bool   // the command goes on as Job, whose output goes on at Total
	Job       string // the job that holds the processes left behind; empty if there are none
	Left      []Proc // some of the processes left behind
	LeftCount int    // how many were left behind
	Survivors int    // how many could not be killed
}

// Fields implements [Message].
func (m *Result) Fields(c *Codec) {
	c.Small(&m.ExitCode)
	c.Small(&m.Signal)
	c.Bool(&m.TimedOut)
	c.Bool(&m.Cancelled)
	c.Bytes(&m.Head, MaxKept)
	c.Bytes(&m.Tail, MaxKept)
	c.Int(&m.Total)
	c.Int(&m.Gone)
	c.String(&m.Spill, MaxPath)
	c.Int(&m.SpillSize)
	c.Duration(&m.Duration)
	c.Bool(&m.GoesOn)
	c.String(&m.Job, maxID)
	List(c, &m.Left, MaxProcs, func(c *Codec, p *Proc) { p.fields(c) })
	c.Small(&m.LeftCount)
	c.Small(&m.Survivors)
}

// Process is a process whose stdin and stdout are streams. The stream of the
// request is the life of the process: any frame on it, or its end, ends it.
type Process struct{ ID string }

// Fields implements [Message].
func (m *Process) Fields(c *Codec) { c.String(&m.ID, maxID) }

// Exited tells that the first process of a command with streams has ended, and,
// once Gone is set, that the command is over.
type Exited struct {
	ExitCode  int    // as in Result
	Stderr    []byte // the end of what it wrote there
	Gone      bool   // nothing of it is left but the Survivors; the last message
	Survivors int    // how many processes could not be killed
}

// Fields implements [Message].
func (m *Exited) Fields(c *Codec) {
	c.Small(&m.ExitCode)
	c.Bytes(&m.Stderr, MaxStderr)
	c.Bool(&m.Gone)
	c.Small(&m.Survivors)
}

// Job is the state of a command that runs in the background.
type Job struct {
	ID       string
	Command  string // the beginning of its script
	Running  bool   // the shell or a process it left behind is alive
	Exited   bool   // the shell has ended
	ExitCode int    // as in Result; valid once Exited
	Signal   int
	TimedOut bool
	Killed   bool  // a Kill ended it
	Total    int64 // bytes of output so far
	Duration time.Duration
	Spill    string
	Procs    []Proc
	Count    int // how many processes are alive
}

// Fields implements [Message].
func (m *Job) Fields(c *Codec) {
	c.String(&m.ID, maxID)
	c.String(&m.Command, maxName)
	c.Bool(&m.Running)
	c.Bool(&m.Exited)
	c.Small(&m.ExitCode)
	c.Small(&m.Signal)
	c.Bool(&m.TimedOut)
	c.Bool(&m.Killed)
	c.Int(&m.Total)
	c.Duration(&m.Duration)
	c.String(&m.Spill, MaxPath)
	List(c, &m.Procs, MaxProcs, func(c *Codec, p *Proc) { p.fields(c) })
	c.Small(&m.Count)
}

// Jobs is a list of jobs.
type Jobs struct{ Jobs []Job }

// Fields implements [Message].
func (m *Jobs) Fields(c *Codec) {
	List(c, &m.Jobs, maxJobs, func(c *Codec, j *Job) { j.Fields(c) })
}

// OutputRequest asks for the output of a job from an offset on.
type OutputRequest struct {
	Job    string
	Offset int64
	Limit  int           // bytes, at most MaxRead
	Wait   time.Duration // how long to wait for something new
}

// Fields implements [Message].
func (m *OutputRequest) Fields(c *Codec) {
	c.String(&m.Job, maxID)
	c.Int(&m.Offset)
	c.Small(&m.Limit)
	c.Duration(&m.Wait)
}

// Output answers an [OutputRequest].
type Output struct {
	Chunk Chunk // starts after the requested offset if output was dropped
	Job   Job
}

// Fields implements [Message].
func (m *Output) Fields(c *Codec) {
	m.Chunk.Fields(c)
	m.Job.Fields(c)
}

// Kill ends a job: TERM, the grace, then KILL. The answer is a [Job].
type Kill struct {
	Job   string
	Grace time.Duration
}

// Fields implements [Message].
func (m *Kill) Fields(c *Codec) {
	c.String(&m.Job, maxID)
	c.Duration(&m.Grace)
}

// Path is a request about one path of the workspace.
type Path struct {
	Name    string
	Offset  int64 // for KindRead: where to start
	Limit   int64 // for KindRead: how many bytes; negative for all
	All     bool  // for KindRemove: also remove the content of a directory
	Entries int64 // for KindTarIn: how many entries at most; 0 for the default
}

// Fields implements [Message].
func (m *Path) Fields(c *Codec) {
	c.String(&m.Name, MaxPath)
	c.Int(&m.Offset)
	c.Int(&m.Limit)
	c.Bool(&m.All)
	c.Int(&m.Entries)
}

// Placed answers a [Path] with KindTarIn.
type Placed struct {
	Files    int64 // files and links of the archive
	Replaced int64 // files and links that were there, and in whose place something else is now
}

// Fields implements [Message].
func (m *Placed) Fields(c *Codec) {
	c.Int(&m.Files)
	c.Int(&m.Replaced)
}

// Write replaces a file with the body that follows.
type Write struct {
	Name string
	Mode fs.FileMode // of a new file; an existing one keeps its own
}

// Fields implements [Message].
func (m *Write) Fields(c *Codec) {
	c.String(&m.Name, MaxPath)
	mode := int64(m.Mode)
	c.Int(&mode)
	m.Mode = fs.FileMode(mode)
}

// Info describes a file.
type Info struct {
	Name    string // base name
	Size    int64
	Mode    fs.FileMode
	ModTime time.Time
	Target  string // of a symbolic link
}

// Fields implements [Message].
func (m *Info) Fields(c *Codec) {
	c.String(&m.Name, MaxPath)
	c.Int(&m.Size)
	mode, nanos := int64(m.Mode), int64(0)
	if !m.ModTime.IsZero() {
		nanos = m.ModTime.UnixNano()
	}
	c.Int(&mode)
	c.Int(&nanos)
	c.String(&m.Target, MaxPath)
	m.Mode = fs.FileMode(mode)
	if nanos != 0 {
		m.ModTime = time.Unix(0, nanos)
	}
}

// Infos is the listing of a directory.
type Infos struct {
	Infos []Info
	More  bool // there are more entries than fit into the reply
}

// Fields implements [Message].
func (m *Infos) Fields(c *Codec) {
	List(c, &m.Infos, MaxList, func(c *Codec, i *Info) { i.Fields(c) })
	c.Bool(&m.More)
}

// Dial asks for a connection to a port inside. After the reply, the stream
// carries the bytes of the connection.
type Dial struct{ Port int }

// Fields implements [Message].
func (m *Dial) Fields(c *Codec) { c.Small(&m.Port) }

// Listen asks the guest to listen on a port, or on any free one if Port is 0,
// for as long as the stream is open. The answer is a Listen with the port that
// was chosen. With KindAccept, Listen asks for one connection that a process
// makes to that port. The answer comes when there is a connection; after it the
// stream carries the bytes of the connection.
type Listen struct{ Port int }

// Fields implements [Message].
func (m *Listen) Fields(c *Codec) { c.Small(&m.Port) }
