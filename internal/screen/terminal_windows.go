package screen

// controlling is the name of the process's console.
const controlling = "CONOUT$"
