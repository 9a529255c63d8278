// Package web shows agents in browsers: the session of one person on their own machine,
// or those of the users of a program that serves many.
//
// A program that imports the package has [pygent.Agent.RunGUI] show an agent:
//
//	agent, err := pygent.New()
//	…
//	defer agent.Close()
//	err = agent.RunGUI(ctx) // prints an address, and opens it in the browser
//
// A program with a web server of its own makes a [Server], which is an [http.Handler],
// and adds agents to it:
//
//	server, err := web.New(web.WithBasePath("/agent"), web.WithHosts("intranet.example"), web.WithUser(signedIn))
//	…
//	mux.Handle("/agent/", server)
//	id, err := server.Add("ada", agent)
//
// The example web_users of the repository is such a program.
//
// # What a server does
//
// The server carries the turns out: it makes a run when somebody says something, queues
// what is said meanwhile, and asks the person about calls and the questions of tools.
// The first answer counts, whichever page gives it. Reloading a page, a second one, or
// a laptop that was closed change nothing: the session goes on, and the page catches up.
// A kept session that nobody looks at and in which nothing goes on is closed after an
// hour ([Limits]), if the server has opened it, and can go on.
//
// # Safety
//
// Requests need a token, which is random and is passed to the page in the fragment of
// its address, so that no other server on the machine sees it; there are no cookies.
// The names by which the server may be reached are fixed, and requests of other sites
// are refused. The page loads and runs nothing but the files of this package. Whatever
// models, commands, files and tools say is text.
//
// Where the host says who its users are, they can talk to their agents and answer them,
// and nothing else unless [WithRights] lets them: they are not asked whether commands may
// reach another host, for example.
//
// Serve it by TLS where others can listen: see [Serve].
package web
