// What every page does with a script: nothing that it could not be read without.

export const changed = "langlauf:changed";
