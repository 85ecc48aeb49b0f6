mod fixture;
mod folder;
mod journal;
mod kill;
mod memo;
mod sample;
mod views;
