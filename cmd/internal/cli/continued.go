package cli

// continuation says who takes a setting from what it continues.
type continuation struct {
	session  bool   // --continue and --resume, from a session
	snapshot bool   // --load, from a snapshot, which may be somebody else's
	why      string // if one of them does not
}

// Reasons that several settings share.
const (
	ofMachine = "a snapshot may come from another machine, or from somebody else, and must not choose where commands run"
	ofServer  = "the settings of the model's server can hold secrets, so nothing stores them"
	ofStart   = "it says what this start does, not how the agent works"
	ofAll     = "it is about all sessions, not about one"
)

// continued has a row for each setting, by its key, or by its variable if it has no key. It
// says whether a continued session takes the setting from before, unless the command line
// gives it. [keeping.setUp] does that, with [pygent.Config.WithSetup], and [settings.goOn]
// for snapshots.
var continued = map[string]continuation{
	"model":                     {session: true, snapshot: true},
	"persona_name":              {session: true, snapshot: true},
	"persona":                   {session: true, snapshot: true},
	"task_personas":             {session: true, snapshot: true},
	"PYGENT_TASK_PERSONAS_JSON": {session: true, snapshot: true},
	"workspace":                 {session: true, why: "a snapshot brings its files, and puts them into a new directory"},
	"initial_files":             {why: "they were copied when the session began"},
	"git.repositories":          {session: true, why: ofMachine},
	"history_file":              {why: "a session has its own file; --history continues with that one"},
	"snapshot":                  {why: ofStart},
	"log_file":                  {why: ofStart},
	"script":                    {why: "a script is code, which only this start may name; a warning says what is missing"},
	"sessions":                  {why: ofStart},
	"max_sessions":              {why: ofAll},
	"max_sessions_size":         {why: ofAll},
	"max_sessions_age":          {why: ofAll},
	"instructions":              {session: true, snapshot: true},
	"survey":                    {session: true, snapshot: true},
	"skills":                    {session: true, snapshot: true},
	"skill_dirs":                {why: "skills are read anew at each start, from the directories that your settings name then"},
	"compaction":                {session: true, snapshot: true},
	"context_window":            {session: true, snapshot: true},
	"retry_time":                {why: ofServer},
	"confirm_bash":              {session: true, snapshot: true},
	"banned_commands":           {session: true, snapshot: true},
	"banned_apps":               {session: true, snapshot: true},
	"disabled_tools":            {session: true, snapshot: true},
	"prices":                    {why: "prices change; without one, a limit of the cost is an error"},
	"env":                       {why: "values can be secrets; a warning names the variables"},

	"container.use_docker":    {session: true, why: ofMachine},
	"container.image":         {session: true, why: ofMachine},
	"container.network":       {session: true, why: ofMachine},
	"container.allowed_hosts": {session: true, why: ofMachine},
	"container.memory":        {session: true, why: ofMachine},
	"container.cpus":          {session: true, why: ofMachine},
	"container.pids":          {session: true, why: ofMachine},
	"container.user":          {session: true, why: ofMachine},
	"container.capabilities":  {session: true, why: ofMachine},
	"container.read_only":     {session: true, why: ofMachine},
	"container.mounts":        {session: true, why: ofMachine},
	"container.gpus":          {session: true, why: ofMachine},
	"container.publish":       {session: true, why: ofMachine},
	"container.shared_files":  {session: true, why: ofMachine},
	"container.docker_host":   {session: true, why: ofMachine},

	"local.protection": {session: true, why: ofMachine},
	"local.readable":   {session: true, why: ofMachine},
	"local.writable":   {session: true, why: ofMachine},
	"local.env":        {session: true, why: ofMachine},

	"limits.max_steps":      {session: true, snapshot: true},
	"limits.max_tool_calls": {session: true, snapshot: true},
	"limits.step_timeout":   {session: true, snapshot: true},
	"limits.max_time":       {session: true, snapshot: true},
	"limits.max_tokens":     {session: true, snapshot: true},
	"limits.max_cost":       {session: true, snapshot: true},
	"limits.max_tasks":      {session: true, snapshot: true},
	"limits.task_timeout":   {session: true, snapshot: true},

	"openai.api_key":             {why: ofServer},
	"openai.base_url":            {why: ofServer},
	"openai.api":                 {why: ofServer},
	"openai.organization":        {why: ofServer},
	"openai.project":             {why: ofServer},
	"openai.headers":             {why: ofServer},
	"openai.extra_body":          {why: ofServer},
	"openai.ca_file":             {why: ofServer},
	"openai.max_tokens":          {why: ofServer},
	"openai.max_tokens_field":    {why: ofServer},
	"openai.parallel_tool_calls": {why: ofServer},
	"openai.stall_first":         {why: ofServer},
	"openai.stall_between":       {why: ofServer},
	"openai.answer_time":         {why: ofServer},
	"openai.send_reasoning":      {why: ofServer},
}

// Continues reports whether a continued session takes a setting from before. The key is
// that of a file, or the variable if no file can have the setting.
func Continues(key string) bool { return continued[key].session }
